"""The certificate that a server presents, also where it cannot be verified: to name its issuer."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from resume_dl.errors import ResumeDLError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.client import HttpTransport
from resume_dl.transport.failures import FOREIGN
from resume_dl.transport.request_address import address_of, request_to


def peer_certificate(network: NetworkSettings, url: str) -> bytes:
    """The certificate in DER; empty if it cannot be had. The answer to the request, which has no login, is ignored.

    Not through an https proxy: its own certificate would not be verified, and it would be given the proxy's login.
    """
    if urlsplit(url).scheme != "https" or (network.proxy_for(url) or "").lower().startswith("https:"):
        return b""
    unverified = replace(network, verify=False, client_cert=None, client_cert_key=None, netrc_path=None)
    transport = HttpTransport(unverified)
    timeouts = dict.fromkeys(("connect", "read", "write", "pool"), network.connect_timeout)
    try:
        request = request_to(address_of(url), {"user-agent": network.user_agent, "range": "bytes=0-0"}, {**timeouts})
        response = transport.route(url).transport.handle_request(request)
        try:
            stream = response.extensions.get("network_stream")
            session = None if stream is None else stream.get_extra_info("ssl_object")
            # positional: httpcore gives the inner object of an SSLSocket
            return bytes(session.getpeercert(True) or b"") if session is not None else b""
        finally:
            response.close()
    except (*FOREIGN, ResumeDLError):
        return b""
    finally:
        transport.close()
