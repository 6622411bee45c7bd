"""TLS contexts: trusted certificates and the client certificate."""

from __future__ import annotations

import importlib
import ssl
from dataclasses import replace
from pathlib import Path

import httpx

from resume_dl.errors import ConfigurationError
from resume_dl.model.network import NetworkSettings


def tls_context(network: NetworkSettings) -> ssl.SSLContext:
    """Make the context of verified connections. Raises ConfigurationError for unusable certificate files."""
    context = _verifying(network)
    if network.client_cert is not None:
        _load_client_cert(context, network.client_cert, network.client_cert_key)
    return context


def unverified_context(network: NetworkSettings) -> ssl.SSLContext:
    """Make the context for hosts whose certificates are not verified. Raises ConfigurationError as ``tls_context``."""
    return tls_context(replace(network, verify=False))


def _verifying(network: NetworkSettings) -> ssl.SSLContext:
    if network.verify is False:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if isinstance(network.verify, Path):
        return _context_of_path(network.verify)
    if network.system_store:
        return _context_of_system()
    return httpx.create_ssl_context(verify=True, trust_env=False)


def _context_of_path(path: Path) -> ssl.SSLContext:
    hint = "Correct ssl_verify (or the variable that names the certificates); it takes a PEM file or an OpenSSL folder."
    if path.is_dir():
        return ssl.create_default_context(capath=str(path))
    try:
        return ssl.create_default_context(cafile=str(path))
    except ssl.SSLError as error:
        raise ConfigurationError(f"{path} holds no certificates in PEM format", hint=hint) from error
    except OSError as error:
        raise ConfigurationError(f"cannot read the trusted certificates {path}: {error.strerror}", hint=hint) from error


def _context_of_system() -> ssl.SSLContext:
    """Make a context of the system's store: by truststore if installed (conda has it), else by OpenSSL's defaults."""
    try:
        truststore = importlib.import_module("truststore")
    except ImportError:
        return ssl.create_default_context()
    context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return context


def _load_client_cert(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    def no_password() -> str:  # else OpenSSL would ask at the terminal, in the middle of a run
        return ""

    try:
        context.load_cert_chain(str(cert), None if key is None else str(key), password=no_password)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"cannot use the client certificate {cert}: {error.reason or 'unreadable, or its key is encrypted'}",
            hint="It must be a PEM file without a password, with its key in it or in client_ssl_cert_key.",
        ) from error
    except OSError as error:
        raise ConfigurationError(f"cannot read the client certificate {cert}: {error.strerror}") from error
