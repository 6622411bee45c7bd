"""Download of a small file with a known SHA-256; an interrupted transfer is resumed from any source."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.file_prefix import Beginning, FilePrefix
from resume_dl.core.responses import check_head, check_length
from resume_dl.engine.worker import failure_of
from resume_dl.errors import SourceError
from resume_dl.indexes.small_answers import Refused
from resume_dl.indexes.small_exchanges import Exchanges
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest
from resume_dl.ports import Response


class HashedFile:
    """The bytes of one file so far, at most ``largest``; ``core.file_prefix`` decides. Thread-safe."""

    def __init__(self, sha256: str, largest: int) -> None:
        self._sha256 = sha256
        self._largest = largest
        self._lock = threading.Lock()
        self._prefix = FilePrefix()
        self.received = 0
        """Body bytes that were downloaded so far."""

    def read(self, exchanges: Exchanges, source: Source) -> bytes | Refused[bytes]:
        """Request the missing bytes; return the whole file, verified. Raises SourceError, Interrupted."""
        with self._lock:
            begun = self._prefix.beginning(str(source.url))
        start = len(begun.data)
        request = RangeRequest(source.url, start, whole=not start, headers=source.headers)
        with exchanges.opened(request) as (response, head):
            if start and head.status == 200:  # the server ignores ranges and sends the file from its start
                request, begun = replace(request, start=0, whole=True), begun.from_zero()
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                with self._lock:
                    return Refused(self._prefix.refused(begun, verdict))
            if too_long := check_length(verdict.size, self._largest):
                return self._wrong(begun, too_long)
            return self._body(exchanges, response, begun, verdict.end)

    def _body(
        self, exchanges: Exchanges, response: Response, begun: Beginning, end: int | None
    ) -> bytes | Refused[bytes]:
        parts, length = [begun.data], len(begun.data)
        try:
            for chunk in exchanges.chunks(response):
                parts.append(chunk)
                length += len(chunk)
                if too_long := check_length(length, self._largest):
                    return self._wrong(begun, too_long)
        except SourceError as error:
            progressed = self._broke(begun, b"".join(parts))
            exchanges.check()
            if not progressed:
                raise
            return Refused(failure_of(error), progressed=True)
        finally:
            with self._lock:
                self.received += length - len(begun.data)
        data = b"".join(parts)
        if end is not None and length != end:
            progressed = self._broke(begun, data)
            exchanges.check()  # a body that was stopped ends as if it were whole
            return Refused(Failure(FailureKind.BROKEN, "the body ended early"), progressed=progressed)
        if hashlib.sha256(data).hexdigest() == self._sha256:
            return data
        exchanges.check()  # a body that was stopped ends as if it were whole
        return self._wrong(
            begun, Failure(FailureKind.CONTENT, f"served bytes that do not match the digest {self._sha256}")
        )

    def _broke(self, begun: Beginning, data: bytes) -> bool:
        with self._lock:
            return self._prefix.broke(begun, data)

    def _wrong(self, begun: Beginning, failure: Failure) -> Refused[bytes]:
        with self._lock:
            return Refused(self._prefix.wrong(begun, failure))
