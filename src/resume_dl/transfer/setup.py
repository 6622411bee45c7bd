"""What every command that downloads has to know first: settings read, mirrors chosen, transport and engine made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.engine.engine import Engine
from resume_dl.errors import ConfigurationError
from resume_dl.model.access import Access
from resume_dl.model.channel_rules import ChannelRules
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.progress.trace import TraceWriter
from resume_dl.settings.channel_access import channel_access, channel_rules
from resume_dl.settings.conda_config import load_conda_settings
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.network import load_network
from resume_dl.settings.paths import Paths, find_paths
from resume_dl.store.begun import BegunNotes
from resume_dl.transfer.blocks import Blocks
from resume_dl.transfer.run_notes import Remember
from resume_dl.transfer.source_places import Places
from resume_dl.transfer.watched_engine import WatchedEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """The common options of docs/interface.md; rates in bytes a second, times in seconds."""

    mirrors_file: Path | None = None
    mirrors: tuple[str, ...] = ()
    upstream: bool = True
    index_from: tuple[str, ...] = ()
    """Mirrors whose indexes the user believes, in their order."""
    connections: int | None = None
    per_host: int | None = None
    limit_rate: float | None = None
    give_up_after: float | None = None
    unreached_give_up: float | None = None
    """Where no source could be reached from the start; else as ``give_up_after``."""
    max_index_size: int | None = None
    """Bytes of a channel index, as it comes and unpacked."""
    refresh: bool = False
    """Ask for channel indexes again, past caches, however young the kept ones are."""
    index_max_age: float | None = None
    """A kept channel index that is younger is used without a request; None: as its server says, within limits."""
    wait: bool = True
    offline: bool = False
    debug_trace: Path | None = None
    command: tuple[str, ...] = ()
    """The words of the command line, secrets included; empty where there is none that goes on."""

    def policy(self) -> Policy:
        """The core's policy with what the user has set."""
        policy = Policy(wait_for_lock=self.wait)
        if self.connections is not None:
            policy = changed(policy, connections=self.connections, files_in_flight=self.connections)
        if self.per_host is not None:
            policy = changed(policy, per_host=self.per_host, per_host_is_explicit=True)
        if self.give_up_after is not None:
            unreached = self.give_up_after if self.unreached_give_up is None else self.unreached_give_up
            policy = changed(policy, give_up_after=self.give_up_after, unreached_give_up=unreached)
            if self.unreached_give_up is None:  # the user's own word: lines come back
                policy = changed(policy, unresolved_give_up=math.inf)
        return policy


@dataclass(frozen=True, slots=True)
class Setup:
    """One command's surroundings."""

    paths: Paths
    conda: CondaSettings
    table: MirrorTable
    options: TransferOptions
    env: Mapping[str, str]
    blocks: Blocks
    rules: ChannelRules
    access: Callable[[RedactedUrl], Access]
    network: Reachability = field(default_factory=Reachability)
    """What this command knows of the network so far; the same for every engine and reader of it."""

    @property
    def places(self) -> Places:
        """The mirrors that may be used. Raises ConfigurationError for an unknown name."""
        self._check_names(self.options.mirrors)
        only = frozenset(self.options.mirrors) or None
        return Places(self.table, self.options.upstream, only, self.blocks, self.rules, self.access)

    @property
    def named(self) -> tuple[str, ...]:
        """Texts in which the user names places: the command line, and the mirrors' addresses."""
        bases = (base for mirror in self.table.mirrors for base in mirror.carries.values())
        return (*self.options.command, *bases, *self.table.origins.values())

    @property
    def index_from(self) -> tuple[str, ...]:
        """The mirrors of ``--index-from``. Raises ConfigurationError for an unknown name."""
        self._check_names(self.options.index_from)
        return self.options.index_from

    def _check_names(self, names: Iterable[str]) -> None:
        known = set(self.table.names()) | {"upstream"}
        for name in sorted({*names} - known):
            raise ConfigurationError(f"there is no mirror named {name!r}", hint=f"known: {', '.join(sorted(known))}")


def load_setup(
    options: TransferOptions,
    env: Mapping[str, str],
    *,
    prefix: Path | None = None,
    conda: CondaSettings | None = None,
    access: Callable[[RedactedUrl], Access] | None = None,
) -> Setup:
    """Read every setting. Raises ConfigurationError.

    ``conda``: its settings, where they are known already; ``access``: how it asks for an address, where it can tell.
    """
    paths = find_paths(env)
    table = load_mirrors(override=options.mirrors_file, user=paths.mirrors_file)
    lasting = options.policy().blocked_seconds
    blocks = Blocks(paths.state, table, asked_for=options.mirrors, lasting=lasting)
    if conda is None:
        conda = load_conda_settings(paths, env, prefix=prefix)
    rules = channel_rules(conda, table)
    return Setup(paths, conda, table, options, env, blocks, rules, access or channel_access(conda, table, env))


@contextmanager
def engine_for(
    setup: Setup, reporter: Reporter, cancelled: Callable[[], bool], *, network: NetworkSettings | None = None
) -> Iterator[WatchedEngine]:
    """An engine on a transport that is closed in the end, as is its trace. Raises NotWritableError for that.

    ``network``: others than conda's (pip's, by ``settings.pip_network``).
    """
    from resume_dl.transport.client import HttpTransport

    network = network or load_network(setup.env, setup.conda, setup.named)
    tracer: TraceWriter | None = None
    transport = HttpTransport(network, warn=lambda text: reporter.message(text, level="warning"))
    try:
        tracer = TraceWriter(setup.options.debug_trace) if setup.options.debug_trace else None
        engine = Engine(
            transport,
            reporter,
            setup.options.policy(),
            limit_rate=setup.options.limit_rate,
            cancelled=cancelled,
            tracer=tracer,
            network=setup.network,
        )
        remember = Remember(BegunNotes(setup.paths.unfinished), setup.options.command)
        watched = WatchedEngine(engine, setup.blocks, reporter, remember)
        try:
            yield watched
        finally:
            watched.finish()
    finally:
        transport.close()
        if tracer is not None:
            tracer.close()
            if tracer.trouble:
                reporter.message(tracer.trouble, level="warning")
