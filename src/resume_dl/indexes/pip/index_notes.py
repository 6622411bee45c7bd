"""What a run says of each package index: which place gave its pages, and why they are believed."""

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
"""So many names of passed-over files are told."""


def _tell_nothing(text: str, level: str) -> None:
    del text, level


class IndexNotes:
    """Filled from any number of threads. ``tell`` gets each line once, with its level."""

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
        """Note a page of ``index`` that came from ``source``.

        ``age``: seconds since its source vouched for a kept copy; None for one that was asked for. ``why``: why the
        authority was not heard, where it was not.
        """
        name = _name(index)
        if vouched is Vouched.NAMED:
            self._say(f"index of {name} from {source.mirror}, as --index-from says", "info")
        elif vouched is Vouched.AGREEMENT:
            text = f"{index.host} cannot be reached ({why}): of its index only what two mirrors of different operators"
            self._say(f"{text} agree on is used", "warning")
        if source.url.reveal()[:5] == "http:" and not is_loopback(source.url.reveal()):
            self._say(
                f"{source.url.host} is asked for an index over plain http: others on the way can change it", "warning"
            )
        carrier = () if vouched is Vouched.AUTHORITY else (source.mirror,)
        with self._lock:
            new = IndexReport(
                name, "", index.host, "kept" if age is not None else "pages", vouched, carrier, received, age
            )
            known = self._reports.get(name)
            self._reports[name] = new if known is None else _joined(known, new)

    def pass_over(self, alone: Mapping[str, tuple[str, ...]]) -> None:
        """Note the files that only one carrier states, by its name."""
        with self._lock:
            for mirror, names in alone.items():
                self._alone.setdefault(mirror, {}).update(dict.fromkeys(names))

    @property
    def reports(self) -> tuple[IndexReport, ...]:
        """One of each index, for ``--json``."""
        with self._lock:
            return tuple(self._reports.values())

    def new_bytes(self) -> int:
        """Bytes of pages that came since this was called last."""
        total = sum(report.downloaded for report in self.reports)
        before, self._counted = self._counted, total
        return total - before

    def hint(self, projects: Collection[str]) -> str:
        """What was passed over of these projects (normalized), for a request without an answer; empty for nothing."""
        told = []
        with self._lock:
            for mirror, files in self._alone.items():
                names = [name for name in files if normalized(name.partition("-")[0]) in projects][-_MOST:]
                if names:
                    text = f"{mirror} lists {', '.join(names)}, and no second mirror states the same digest"
                    told.append(f"{text}: that does not count")
        return "; ".join(told)

    def tell_each(self) -> None:
        """The age of pages that were used as they are kept; and one line of each index, for ``--verbose``."""
        for report in self.reports:
            if report.age:
                text = f"index of {report.channel}, kept pages of up to {show_age(report.age)}"
                self._say(f"{text}; --refresh asks for newer ones", "info")
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
    """Its address without a login; of a folder on this machine the last part, as a bundle's manifest names no paths."""
    if index.reveal()[:5].lower() == "file:":
        return index.reveal().rstrip("/").rpartition("/")[2]
    return str(without_credentials(index))


def _joined(known: IndexReport, new: IndexReport) -> IndexReport:
    """One report of both: what came, and the oldest of what was kept."""
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
