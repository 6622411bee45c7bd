"""Reports on a run's package indexes: the sources of their pages and why these are trusted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from resume_dl.model.artifact import Source
from resume_dl.model.channel import without_credentials
from resume_dl.model.index_report import IndexReport, Vouched
from resume_dl.model.network import is_loopback
from resume_dl.model.units import show_age
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import normalized

_MOST = 5
"""The number of ignored files to name."""


def _tell_nothing(text: str, level: str) -> None:
    del text, level


class IndexNotes:
    """Collects reports from any thread. ``tell`` gets each message once, with its level."""

    def __init__(self, tell: Callable[[str, str], None] = _tell_nothing) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._reports: dict[str, IndexReport] = {}
        self._alone: dict[str, dict[str, None]] = {}
        self._counted = 0

    def add(
        self,
        index: RedactedUrl,
        source: Source,
        vouched: Vouched,
        *,
        received: int = 0,
        age: float | None = None,
        why: str = "",
    ) -> None:
        """Record a page of ``index`` that came from ``source``.

        ``age``: seconds since its source confirmed a kept copy; None for a fetched page. ``why``: the reason why the
        authority could not be used, if so.
        """
        name = _name(index)
        if vouched is Vouched.NAMED:
            self._say(f"index of {name} from {source.mirror}, as --index-from says", "info")
        elif vouched is Vouched.AGREEMENT:
            text = f"{index.host} cannot be reached ({why}): of its index only what two mirrors of different operators"
            self._say(f"{text} agree on is used", "warning")
        if source.url.reveal()[:5] == "http:" and not is_loopback(source.url.reveal()):
            self._say(
                f"the index of {source.url.host} comes over plain http, so it can be altered on the way", "warning"
            )
        carrier = () if vouched is Vouched.AUTHORITY else (source.mirror,)
        with self._lock:
            new = IndexReport(
                name, "", index.host, "kept" if age is not None else "pages", vouched, carrier, received, age
            )
            known = self._reports.get(name)
            self._reports[name] = new if known is None else _joined(known, new)

    def pass_over(self, alone: Mapping[str, tuple[str, ...]]) -> None:
        """Record the files that only one carrier states, by its name."""
        with self._lock:
            for mirror, names in alone.items():
                self._alone.setdefault(mirror, {}).update(dict.fromkeys(names))

    @property
    def reports(self) -> tuple[IndexReport, ...]:
        """Return one report per index, for ``--json``."""
        with self._lock:
            return tuple(self._reports.values())

    def new_bytes(self) -> int:
        """Return the bytes of pages downloaded since the last call."""
        total = sum(report.downloaded for report in self.reports)
        before, self._counted = self._counted, total
        return total - before

    def hint(self, projects: Collection[str]) -> str:
        """Return a hint on ignored files of these projects (normalized), for an unsolvable request; may be empty."""
        told = []
        with self._lock:
            for mirror, files in self._alone.items():
                names = [name for name in files if normalized(name.partition("-")[0]) in projects][-_MOST:]
                if names:
                    text = f"{mirror} lists {', '.join(names)}, but no second mirror states the same digest"
                    told.append(f"{text}: ignored")
        return "; ".join(told)

    def tell_each(self) -> None:
        """Report the age of kept pages in use, and one line per index for ``--verbose``."""
        for report in self.reports:
            if report.age:
                text = f"index of {report.channel}, kept pages of up to {show_age(report.age)}"
                self._say(f"{text}; --refresh fetches newer ones", "info")
            by = f", carried by {', '.join(report.carried_by)}" if report.carried_by else ""
            reason = {
                Vouched.AUTHORITY: "which the settings name",
                Vouched.AGREEMENT: "on which mirrors agree",
                Vouched.NAMED: "by --index-from",
            }[report.vouched]
            self._say(f"index: {report.channel} ({report.form}), {reason}{by}", "debug")

    def _say(self, text: str, level: str) -> None:
        with self._lock:
            if text in self._told:
                return
            self._told.add(text)
        self._tell(text, level)


def _name(index: RedactedUrl) -> str:
    """Return its URL without login; for a local folder only its name, as a bundle's manifest must not have paths."""
    if index.reveal()[:5].lower() == "file:":
        return index.reveal().rstrip("/").rpartition("/")[2]
    return str(without_credentials(index))


def _joined(known: IndexReport, new: IndexReport) -> IndexReport:
    """Merge two reports of an index: the sum of the bytes, the age of the oldest page."""
    ages = [report.age for report in (known, new) if report.age is not None]
    return replace(
        known,
        form=known.form if known.form == new.form else "pages",
        vouched=known.vouched if known.vouched is new.vouched else _weaker(known.vouched, new.vouched),
        carried_by=tuple(dict.fromkeys((*known.carried_by, *new.carried_by))),
        downloaded=known.downloaded + new.downloaded,
        age=max(ages, default=None),
    )


def _weaker(one: Vouched, other: Vouched) -> Vouched:
    return next(each for each in (Vouched.AGREEMENT, Vouched.NAMED) if each in {one, other})
