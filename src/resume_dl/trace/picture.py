"""The whole picture: title, speeds, connections, offsets and legend over one time axis."""

from __future__ import annotations

from resume_dl.trace.frame import LEFT, RIGHT, WIDTH, Frame, bytes_text, seconds_text
from resume_dl.trace.lanes import draw_lanes
from resume_dl.trace.legend import draw_legend
from resume_dl.trace.offsets import draw_offsets
from resume_dl.trace.speeds import draw_speeds
from resume_dl.trace.svg import FAINT, Canvas, shortened
from resume_dl.trace.timeline import Timeline


def draw(timeline: Timeline) -> bytes:
    """The timeline as an SVG document."""
    canvas, frame = Canvas(WIDTH), Frame(timeline)
    canvas.text(LEFT, 30, _title(timeline), font_size=18, font_weight="bold", class_="title")
    canvas.text(LEFT, 49, _summary(timeline), fill=FAINT)
    canvas.text(WIDTH - RIGHT, 30, f"resume-dl {timeline.version}", fill=FAINT, text_anchor="end", font_size=11)
    canvas.text(WIDTH - RIGHT, 45, timeline.started[:19].replace("T", " "), fill=FAINT, text_anchor="end", font_size=11)
    top = draw_legend(canvas, frame, 62)
    canvas.text(LEFT, top + 18, "Kept bytes a second, by source", font_weight="bold")
    top = draw_speeds(canvas, frame, top + 28)
    top = draw_lanes(canvas, frame, top + 10)
    top = draw_offsets(canvas, frame, top + 6)
    return canvas.written(top + 8)


def _title(timeline: Timeline) -> str:
    if len(timeline.files) == 1:
        return shortened(timeline.files[0].name, 90)
    return f"{len(timeline.files)} files" if timeline.files else "nothing was downloaded"


def _summary(timeline: Timeline) -> str:
    kept = sum(sum(file.kept.values()) for file in timeline.files)
    received = sum(sum(file.received.values()) for file in timeline.files)
    resumed = sum(file.holdings.resumed for file in timeline.files)
    size = sum(file.size or 0 for file in timeline.files)
    parts = [bytes_text(size), seconds_text(timeline.end)]
    if kept:
        parts.append(f"{bytes_text(kept)} kept, {bytes_text(kept / max(timeline.end, 0.001))}/s on average")
    if received > kept:
        parts.append(f"{bytes_text(received - kept)} received and discarded")
    if resumed:
        parts.append(f"{bytes_text(resumed)} from an earlier run")
    good = sum(file.outcome != "" and not file.outcome.startswith("failed") for file in timeline.files)
    if timeline.files:
        one = len(timeline.files) == 1
        outcome = timeline.files[0].outcome or "unfinished"
        parts.append(outcome if one else f"{good} of {len(timeline.files)} finished")
    if not timeline.whole:
        parts.append("the trace ends abruptly")
    if timeline.unread:
        parts.append(f"{timeline.unread} unreadable {'line' if timeline.unread == 1 else 'lines'}")
    return "  ·  ".join(parts)
