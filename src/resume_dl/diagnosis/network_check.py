"""Judge proxies and what the servers answered. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from resume_dl.diagnosis.finding import Finding, note, ok, problem
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.url import redact
from resume_dl.progress.console import duration_text
from resume_dl.shell_commands import Step, command_line

MOST_SKEW = 300.0
"""Seconds; kerberos' limit too. Certificates are refused, and kept indexes judged wrongly, with a wrong clock."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one server answered to a small request; exactly one of ``status``, ``trouble`` and ``silent`` counts."""

    name: str
    """A mirror's name, or the host of a publisher."""
    host: str
    canonical: bool = False
    status: int = 0
    """Of the response; 0 without one."""
    portal: bool = False
    """A login page answered in its place."""
    trouble: str = ""
    unresolved: str = ""
    """The host name, the server's or its proxy's, that cannot be resolved."""
    untrusted: bool = False
    """Its certificate cannot be verified."""
    issuer: str = ""
    """The issuer of a certificate that cannot be verified."""
    silent: bool = False
    """No answer within the time."""
    conda: bool = True
    """Whether it was asked for a channel, not for a package index."""
    skew: float | None = None
    """Seconds by which its clock is ahead of ours; None if unknown."""


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """``proxies``: scheme -> (address, where it is set). ``answers`` None: not asked, as with --offline."""

    proxies: Mapping[str, tuple[str, str]]
    answers: Sequence[Answer] | None = None
    verified: bool = True
    """False: ``ssl_verify: false``, certificates are not checked."""
    trouble: str = ""
    """Why the settings cannot be used."""
    seconds: float = 0.0
    """The time that each server had."""
    auth: ProxyAuth = ProxyAuth.BASIC


def check_network(facts: NetworkFacts, python: str = "python") -> list[Finding]:
    """Findings ``proxies``, ``tls``, ``dns``, ``clock``, ``login`` and ``mirrors``; ``python`` runs a browser."""
    findings = [_proxies(facts)]
    if not facts.verified:
        command = command_line([Step(("conda", "config", "--set", "ssl_verify", "true"))])
        findings.append(problem("tls", "certificates are not checked: ssl_verify is false", command))
    if facts.trouble:
        return findings if findings[0].text == facts.trouble else [*findings, problem("network", facts.trouble)]
    if facts.answers is None:
        return [*findings, note("network", "not asked: --offline")]
    portals = [each for each in facts.answers if each.portal]
    if portals:
        text = f"a login page answers in place of {portals[0].host}: log in to this network in a browser"
        command = command_line([Step((python, "-m", "webbrowser", "http://example.com/"))])
        findings.append(problem("login", text, command))
    if facts.verified:
        findings += _tls(facts.answers)
    findings += _dns(facts.answers)
    findings += _clock([each.skew for each in facts.answers if each.skew is not None and not each.portal])
    return [*findings, *_reached(facts)]


def _proxies(facts: NetworkFacts) -> Finding:
    shown = [f"{scheme}: {redact(proxy) or 'none'} ({where})" for scheme, (proxy, where) in facts.proxies.items()]
    if shown:
        login = "" if facts.auth is ProxyAuth.BASIC else f"; login by {facts.auth.scheme} (proxy_auth)"
        return ok("proxies", ", ".join(shown) + login)
    if facts.trouble.startswith(("http", "all_proxy", "proxy_servers", "the system")):
        return problem("proxies", facts.trouble)
    return ok("proxies", "none")


def _tls(answers: Sequence[Answer]) -> list[Finding]:
    refused = [each for each in answers if each.untrusted]
    if not refused:
        trusted = any(each.status for each in answers)
        return [ok("tls", "certificates are verified")] if trusted else []
    canonical = [each for each in refused if each.canonical]
    issuer = next((each.issuer for each in refused if each.issuer), "")
    named = f", issued by {issuer}" if issuer else ""
    hosts = ", ".join(each.host for each in refused[:3])
    if not canonical:
        return [note("tls", f"the certificate of {hosts} is not trusted{named}")]
    command = command_line([Step(("conda", "config", "--set", "ssl_verify", "truststore"))])
    text = f"the certificate of {hosts} is not trusted{named}: a proxy or a virus scanner may intercept TLS"
    return [
        problem("tls", f"{text}; if this system trusts it, the command makes conda and resume-dl trust it", command)
    ]


def _dns(answers: Sequence[Answer]) -> list[Finding]:
    lost = list(dict.fromkeys(each.unresolved for each in answers if each.unresolved))
    if not lost:
        return [ok("dns", "host names resolve")] if any(each.status for each in answers) else []
    shown = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
    if all(each.unresolved for each in answers):
        return [problem("dns", f"no host name resolves ({shown}): there is no network, or its name server is down")]
    return [note("dns", f"cannot resolve {shown}")]


def _clock(skews: Sequence[float]) -> list[Finding]:
    if not skews:
        return []
    ahead = median(skews)
    if abs(ahead) <= MOST_SKEW:
        return [ok("clock", "agrees with the servers")]
    way = "behind" if ahead > 0 else "ahead of"
    text = f"this machine is {duration_text(abs(ahead))} {way} the servers: certificates may be refused"
    commands = {"win32": ("w32tm", "/resync"), "darwin": ("sudo", "sntp", "-sS", "time.apple.com")}
    step = commands.get(sys.platform, ("sudo", "timedatectl", "set-ntp", "true"))
    return [problem("clock", text, command_line([Step(step)]))]


def _reached(facts: NetworkFacts) -> list[Finding]:
    answers = [each for each in facts.answers or () if not each.portal]
    good = [each for each in answers if 0 < each.status < 400 or each.status in {404, 416}]
    if not answers:
        return []
    if not good:
        why = next((_why(each, facts.seconds) for each in answers), "")
        return [problem("mirrors", f"no server can be used: {why}; see the findings above")]
    if not any(each.conda for each in good):
        why = next((_why(each, facts.seconds) for each in answers if each.conda), "")
        return [problem("mirrors", f"no server of conda channels can be used: {why}; see the findings above")]
    findings = [ok("mirrors", f"{len(good)} of {len(answers)} reached: {', '.join(each.name for each in good)}")]
    for each in answers:
        if each in good:
            continue
        findings.append(note("mirrors", f"{each.name}: {_why(each, facts.seconds)}{_effect(each)}"))
    return findings


def _effect(each: Answer) -> str:
    return "; an index is then believed only if two mirrors of different operators agree" if each.canonical else ""


def _why(each: Answer, seconds: float) -> str:
    if each.silent:
        return f"no answer within {seconds:g} s"
    if each.status == 403:
        return "refuses this machine (403)"
    return each.trouble or f"HTTP status {each.status}"
