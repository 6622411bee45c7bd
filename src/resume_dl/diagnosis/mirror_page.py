"""The page of ``mirrors test --html``: one file without scripts and without anything from elsewhere. Pure.

It follows the reader's light or dark scheme, and below 720 pixels each mirror is a card in place of a row. Every text
that comes from a table or a server is made presentable and escaped.
"""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Iterator

from resume_dl.diagnosis.mirror_row import MirrorReport, MirrorRow
from resume_dl.diagnosis.mirror_words import age, conclusion, failure, heading, is_stale, remarks, speed, wait
from resume_dl.progress.console import presentable

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #f6f7f9; --card: #fff; --line: #dfe3e8;
  --bar: #bfdbfe; --best: #86efac; --good: #166534; --warn: #92400e; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --paper: #14181e; --card: #1c222b;
  --line: #303946; --bar: #1e3a8a; --best: #14532d; --good: #86efac; --warn: #fcd34d; --bad: #fca5a5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 3rem; max-width: 60rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft, footer { color: var(--soft); font-size: .9rem; } footer { margin-top: 2rem; }
.lead { font-size: 1.1rem; margin-top: .8rem; }
table { width: 100%; border-collapse: collapse; background: var(--card); border: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .55rem .7rem; border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-size: .85rem; font-weight: 500; white-space: nowrap; }
tbody th { font-weight: 600; min-width: 14rem; } td[data-name] { overflow-wrap: normal; }
tbody tr:last-child > * { border-bottom: 0; }
.meter { display: block; height: .45rem; margin-top: .25rem; border-radius: .25rem; background: var(--line); }
.meter > i { display: block; height: 100%; border-radius: inherit; background: var(--bar); }
.best .meter > i { background: var(--best); }
.speed { min-width: 9rem; } .num { white-space: nowrap; font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
th small { display: block; color: var(--soft); font-weight: 400; }
@media (max-width: 720px) { body { padding-top: 1.2rem; } thead { display: none; }
  table, tbody, tr, th, td { display: block; border: 0; } table { background: none; }
  tbody tr { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .2rem;
    margin-bottom: .7rem; }
  th, td { padding: .15rem .7rem; } tbody th { min-width: 0; }
  td[data-name]::before { content: attr(data-name) ": "; color: var(--soft); }
  td.speed::before { content: ""; } }
@media print { body { background: none; } }
"""
_HEAD = ("Mirror", "Speed", "First byte", "Ranges", "Age")


def page(report: MirrorReport) -> str:
    """The whole document."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.when))
    tested = f"{_count(report)}, tested {when} in {report.elapsed:.0f} s"
    body = "\n".join(part for group in report.groups() for part in _group(*group, now=report.when))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>Mirrors from here, {_safe(when)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Mirrors from here</h1>
<p class="soft">{_safe(tested)}</p>
<p class="lead">{_safe(_sentence(conclusion(report)))}</p>
{body}
<footer>
<p>Speed: of a sample of each index. First byte: from the request, new connection included, to the answer. Ranges:
without them an interrupted download from this mirror alone begins again. Age: how much older its index is than the
origin's own.</p>
<p>Made by resume-dl mirrors test.</p>
</footer>
</body>
</html>
"""


def _group(origin: str, platform: str, rows: list[MirrorRow], *, now: float) -> Iterator[str]:
    fastest = max((row.speed or 0.0 for row in rows), default=0.0)
    yield f"<section><h2>{_safe(heading(origin, platform))}</h2>"
    yield f"<table><thead><tr>{_cells(_HEAD)}</tr></thead><tbody>"
    for number, row in enumerate(rows):
        yield _row(row, fastest, now, best=number == 0 and bool(row.speed))
    yield "</tbody></table></section>"


def _cells(names: Iterable[str]) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def _row(row: MirrorRow, fastest: float, now: float, *, best: bool) -> str:
    notes = "".join(f"<small>{_safe(_sentence(note))}</small>" for note in remarks(row, now))
    name = f'<th scope="row">{_safe(row.place.mirror)}{notes}</th>'
    if not row.ok:
        return f'<tr>{name}<td class="bad" colspan="4">{_safe(_sentence(failure(row)))}</td></tr>'
    share = 0.0 if row.speed is None or not fastest else max(1.0, 100 * row.speed / fastest)
    bar = f'<span class="meter"><i style="width:{share:.0f}%"></i></span>' if share else ""
    ranges = (
        '<td data-name="Ranges" class="good">yes</td>' if row.ranges else '<td data-name="Ranges" class="warn">no</td>'
    )
    kind = ' class="warn"' if is_stale(row) else ""
    return (
        f"<tr{' class=best' if best else ''}>{name}"
        f'<td class="speed num" data-name="Speed">{_safe(speed(row))}{bar}</td>'
        f'<td class="num" data-name="First byte">{_safe(wait(row))}</td>{ranges}'
        f'<td data-name="Age"{kind}>{_safe(age(row))}</td></tr>'
    )


def _count(report: MirrorReport) -> str:
    names = {row.place.mirror for row in report.rows}
    works = {row.place.mirror for row in report.rows if row.ok}
    return f"{len(works)} of {len(names)} work"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _safe(text: str) -> str:
    return html.escape(" ".join(presentable(text).split()))
