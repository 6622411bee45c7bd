"""Ask each publisher and mirror for one byte, all at once, in bounded time."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.responses import check_head
from resume_dl.diagnosis.issuer_name import issuer_name
from resume_dl.diagnosis.network_check import Answer
from resume_dl.errors import NetworkError, ResumeDLError, StalledError
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.mirror import MirrorTable, join_url
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Transport
from resume_dl.threads import start_thread
from resume_dl.transport.peer_certificate import peer_certificate

SECONDS = 15.0
"""For all servers together; a mirror that needs longer for one byte is of no use."""
_PUBLISHED = ("conda:conda-forge", "conda:pkgs/main")
_INDEX = {"conda:": "noarch/repodata.json", "pypi:simple": "pip/", "wheels:": "torch/"}
"""A path that each place of a kind has."""

Question = tuple[str, str, bool]
"""A name, a URL, and whether it is the publisher's own."""


def questions(table: MirrorTable) -> list[Question]:
    """One small file of each publisher and of each active mirror, one request a host."""
    found = [
        (RedactedUrl(table.origins[name]).host, _file(name, table.origins[name]), True)
        for name in _PUBLISHED
        if name in table.origins
    ]
    for mirror in table.mirrors:
        place = next(((name, base) for name, base in mirror.carries.items() if _file(name, base)), None)
        if mirror.active and place is not None:
            found.append((mirror.name, _file(*place), False))
    return found


def _file(origin: str, base: str) -> str:
    path = next((path for start, path in _INDEX.items() if origin.startswith(start)), "")
    return join_url(base, path) if path else ""


class NetworkProbe:
    """The requests in flight; ``answers`` waits for them, at most until ``seconds`` after the start."""

    def __init__(
        self,
        asked: Sequence[Question],
        network: NetworkSettings,
        *,
        seconds: float = SECONDS,
        transport: Transport | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        times = ("connect_timeout", "first_byte_timeout", "read_timeout")
        self._network = replace(network, **{name: min(getattr(network, name), seconds) for name in times})
        self._transport = transport or _transport(self._network)
        self._asked = list(asked)
        self._wall = wall
        self._ended: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._deadline = time.monotonic() + seconds
        for number, question in enumerate(self._asked):
            self._start(number, question)

    def _start(self, number: int, question: Question) -> None:
        blank = _blank(question)

        def failed(error: BaseException) -> None:
            self._ended.put((number, replace(blank, trouble=f"internal error: {type(error).__name__}")))

        def call() -> None:
            self._ended.put((number, self._ask(blank, question[1])))

        try:
            start_thread(call, failed, name=f"doctor-{number}")
        except RuntimeError as error:
            failed(error)

    def answers(self) -> list[Answer]:
        """The answers in the order of the questions; a server without one is ``silent``. Call it once."""
        found: dict[int, Answer] = {}
        try:
            while len(found) < len(self._asked):
                number, answer = self._ended.get(timeout=max(0.0, self._deadline - time.monotonic()))
                found[number] = answer
        except queue.Empty:
            pass
        finally:
            self._transport.close()
        return [found.get(number) or _silent(question) for number, question in enumerate(self._asked)]

    def _ask(self, blank: Answer, url: str) -> Answer:
        request = RangeRequest(RedactedUrl(url), 0, 1)
        try:
            response = self._transport.exchange(request).open()
        except StalledError:
            return replace(blank, silent=True)
        except NetworkError as error:
            trouble = error.message.removeprefix(f"{blank.host}: ")
            untrusted = "certificate is not trusted" in trouble
            issuer = issuer_name(peer_certificate(self._network, url)) if untrusted and blank.canonical else ""
            return replace(blank, trouble=trouble, unresolved=error.unresolved, untrusted=untrusted, issuer=issuer)
        except ResumeDLError as error:
            return replace(blank, trouble=error.message)
        now = self._wall()
        head = response.head
        response.close()
        refusal = check_head(request, head, None)
        is_page = url.endswith("/")  # a package index is a web page itself
        portal = (
            isinstance(refusal, Failure) and refusal.kind is FailureKind.PORTAL and (not is_page or head.status == 511)
        )
        return replace(blank, status=head.status, portal=portal, skew=skew_of(head, now))


def _transport(network: NetworkSettings) -> Transport:
    from resume_dl.transport.client import HttpTransport

    return HttpTransport(network, warn=lambda _: None)


def skew_of(head: ResponseHead, now: float) -> float | None:
    """Seconds from our clock to the server's: its Date, plus its Age in caches (RFC 9110 6.6.1, RFC 9111 5.1)."""
    try:
        date = parsedate_to_datetime(head.headers.get("date", ""))
        age = head.headers.get("age", "0").strip()
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        passed = float(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0.0
        return (date - datetime.fromtimestamp(0, timezone.utc)).total_seconds() + passed - now
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _blank(question: Question) -> Answer:
    name, url, canonical = question
    return Answer(name, RedactedUrl(url).host, canonical, conda=url.endswith(_INDEX["conda:"]))


def _silent(question: Question) -> Answer:
    return replace(_blank(question), silent=True)
