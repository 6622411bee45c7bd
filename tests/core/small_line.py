"""One page asked of several sources, each with its own pace, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from resume_dl.core.policy import Policy
from resume_dl.core.small_requests import Ask, Drop, Rest, SmallRequest, next_step
from resume_dl.core.sources import SourceState

Pace = Callable[[float], float]
"""Bytes that have come so many seconds after the request."""


def steady(rate: float) -> Pace:
    return lambda seconds: rate * seconds


def page(
    policy: Policy,
    paces: Sequence[Pace],
    *,
    until: float = 300.0,
    ends: float = float("inf"),
    best: float | None = None,
    hedged: bool = True,
) -> list[tuple[float, str]]:
    """What happens up to ``until``, with its times: ``ask 0``, ``drop 0: why``, ``over``. No page is ever whole."""
    states = [SourceState(str(number), str(number)) for number in range(len(paces))]
    under_way: list[SmallRequest] = []
    log: list[tuple[float, str]] = []
    now = 0.0
    while now < until:
        for one in under_way:
            one.received = int(paces[one.source](now - one.asked_at))
        step = next_step(states, under_way, now, {}, ends=ends, hedged=hedged, best=best, policy=policy)
        if step is None:
            return [*log, (now, "over")]
        if isinstance(step, Ask):
            log.append((now, f"ask {step.source}"))
            under_way.append(SmallRequest(step.source, now, step.patience))
            under_way[-1].begin(now)
        elif isinstance(step, Drop):
            log.append((now, f"drop {step.source}: {step.failure.message}"))
            under_way = [one for one in under_way if one.source != step.source]
            states[step.source].failed(step.failure, now, policy, lambda: 0.0, whole=True)
        else:
            assert isinstance(step, Rest)
            assert step.until > now
            now = step.until
    return log


def asked(log: Sequence[tuple[float, str]]) -> list[tuple[float, int]]:
    return [(at, int(what.partition(" ")[2])) for at, what in log if what.startswith("ask")]


def dropped(log: Sequence[tuple[float, str]]) -> float | None:
    """When the first request was ended."""
    return next((at for at, what in log if what.startswith("drop")), None)
