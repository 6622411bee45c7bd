"""The authority's shard index is asked for with little patience where carriers can stand in for its whole index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS
from resume_dl.core.reachability import Reachability
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.open_index import NoIndex, ShardSources
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.model.artifact import Source
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolution import conda_shards as app_shards
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.in_process import Heard


class Silent:
    """A Reader to which no source answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, sources: Sequence[Source], attempt: Callable[[Source], object]) -> object:
        del attempt
        self.asked += [str(source.url) for source in sources]
        raise Unanswered([(source, Failure(FailureKind.STALLED, "no byte")) for source in sources])

    def stop(self) -> None:
        pass


def sources(subdir: str, *, carried: bool) -> ShardSources:
    at = [Source(name, RedactedUrl(f"https://{name}.example/lab/{subdir}/{FILENAME}")) for name in ("upstream", "one")]
    return ShardSources(f"lab/{subdir}", subdir, (at[0],), (at[1],) if carried else ())


@pytest.mark.parametrize("carried", [True, False])
def test_a_silent_authority_is_asked_once_with_a_short_time_limit(tmp_path: Path, carried: bool) -> None:
    """Its next subdir, and then its whole index, do not wait for it again, where a carrier can answer instead."""
    patient, hurried, network = Silent(), Silent(), Reachability()
    fetcher = ShardFetcher(patient, ShardStore(tmp_path), Heard(), hurried=hurried, network=network)
    try:
        for subdir in ("linux-64", "noarch"):
            (answer,) = fetcher.open([sources(subdir, carried=carried)])
            assert isinstance(answer, NoIndex)
    finally:
        fetcher.close()
    assert patient.asked == []
    asked = [f"https://upstream.example/lab/{subdir}/{FILENAME}" for subdir in ("linux-64", "noarch")]
    assert hurried.asked == (asked[:1] if carried else asked)
    assert network.is_given_up(["upstream.example"]) is carried


@pytest.mark.parametrize(("given", "expected"), [(None, DEFAULTS.authority_give_up), (5.0, 5.0)])
def test_the_time_limits_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: float | None, expected: float
) -> None:
    """The same as for whole indexes, or what the user allows, if that is less."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(app_shards, "ShardFetcher", lambda *_, **options: made.update(options))

    class Engine:
        transport = None

    env = {"HOME": str(tmp_path), **{f"RESUME_DL_{kind}_DIR": str(tmp_path) for kind in ("CACHE", "STATE", "CONFIG")}}
    setup = load_setup(TransferOptions(give_up_after=given), env, conda=CondaSettings())
    app_shards.channel_shards(
        setup, Heard(), Engine(), None, offline=False, cancelled=lambda: False
    )  # fmt: skip
    assert made["hurried"].policy.give_up_after == expected
    made["hurried"].stop()
