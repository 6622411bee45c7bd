"""Set-up of every command that downloads: reads settings, chooses mirrors, makes transport and engine."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import NamedTuple

from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.engine.engine import Engine
from resume_dl.errors import ConfigurationError
from resume_dl.model.access import Access
from resume_dl.model.channel_rules import ChannelRules
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.network import NetworkSettings
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Keyring, PluginLogins, Reporter
from resume_dl.progress.trace import TraceWriter
from resume_dl.settings.channel_access import channel_access, channel_rules
from resume_dl.settings.conda_config import environment, load_conda_settings
from resume_dl.settings.mirror_speeds import MirrorSpeeds, read_speeds, speeds_file
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.network import load_network
from resume_dl.settings.paths import Paths, find_paths
from resume_dl.settings.pip_keyring import KeyringMemory
from resume_dl.store.unfinished_runs import UnfinishedNotes, environment_of
from resume_dl.transfer.blocks import Blocks
from resume_dl.transfer.destination import refuse_others_link
from resume_dl.transfer.run_notes import RunNotes
from resume_dl.transfer.source_places import Places
from resume_dl.transfer.watched_engine import WatchedEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """The common options of docs/interface.md; rates in bytes per second, times in seconds."""

    mirrors_file: Path | None = None
    mirrors: tuple[str, ...] = ()
    upstream: bool = True
    index_from: tuple[str, ...] = ()
    """Mirrors whose indexes the user trusts, in order of preference."""
    connections: int | None = None
    per_host: int | None = None
    limit_rate: float | None = None
    give_up_after: float | None = None
    unreached_give_up: float | None = None
    """The limit if no source could be reached at all; default: ``give_up_after``."""
    max_index_size: int | None = None
    """The most bytes of a channel index, as transferred and as decompressed."""
    refresh: bool = False
    """Revalidate channel indexes past all caches, however recent the kept ones are."""
    index_max_age: float | None = None
    """A kept channel index that is younger is used without a request; None: as its Cache-Control says, in limits."""
    proxy_auth: ProxyAuth | None = None
    """How to log in to proxies; None: as the settings say."""
    wait: bool = True
    offline: bool = False
    debug_trace: Path | None = None
    command: tuple[str, ...] = ()
    """The words of the command line, secrets included; empty if no command would resume the run."""

    def policy(self) -> Policy:
        """Return the core's policy with the user's settings."""
        policy = Policy(wait_for_lock=self.wait)
        if self.connections is not None:
            policy = changed(policy, connections=self.connections, files_in_flight=self.connections)
        if self.per_host is not None:
            policy = changed(policy, per_host=self.per_host, per_host_is_explicit=True)
        if self.give_up_after is not None:
            unreached = self.give_up_after if self.unreached_give_up is None else self.unreached_give_up
            policy = changed(policy, give_up_after=self.give_up_after, unreached_give_up=unreached)
            if self.unreached_give_up is None:  # the user chose to wait: the network may come back
                policy = changed(policy, unresolved_give_up=math.inf)
        return policy


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings, mirrors and options of one command."""

    paths: Paths
    conda: CondaSettings
    table: MirrorTable
    options: TransferOptions
    env: Mapping[str, str]
    blocks: Blocks
    rules: ChannelRules
    access: Callable[[RedactedUrl], Access]
    speeds: MirrorSpeeds = field(default_factory=MirrorSpeeds)
    """What ``mirrors test`` has measured."""
    logins: PluginLogins | None = None
    """The logins of conda's plugins; None where ``access`` has them already."""
    network: Reachability = field(default_factory=Reachability)
    """What this command has found out about the network; shared by all its engines and small requests."""
    keyring: KeyringMemory = field(default_factory=KeyringMemory)
    """The logins that the user's keyring has given to this command; shared likewise."""

    @property
    def places(self) -> Places:
        """The sources that may be used. Raises ConfigurationError for an unknown mirror."""
        self._check_names(self.options.mirrors)
        only = frozenset(self.options.mirrors) or None
        return Places(self.table, self.options.upstream, only, self.blocks, self.rules, self.access, self.speeds)

    @property
    def named(self) -> tuple[str, ...]:
        """Texts in which the user names places: the command line, and the mirrors' addresses."""
        bases = (base for mirror in self.table.mirrors for base in mirror.carries.values())
        return (*self.options.command, *bases, *self.table.origins.values())

    def load_network(self) -> NetworkSettings:
        """The settings of every connection. Raises ConfigurationError."""
        found = load_network(self.env, self.conda, self.named)
        auth = self.options.proxy_auth
        return found if auth is None else changed(found, proxy_auth=auth)

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
    """Read all settings. Raises ConfigurationError.

    ``conda``: conda's settings if they are known already. ``access``: how conda requests an address, if the caller
    knows; default: by conda's settings.
    """
    paths = find_paths(env)
    table = load_mirrors(override=options.mirrors_file, user=paths.mirrors_file)
    lasting = options.policy().blocked_seconds
    blocks = Blocks(paths.state, table, asked_for=options.mirrors, lasting=lasting)
    if conda is None:
        conda = load_conda_settings(paths, env, prefix=prefix)
    rules = channel_rules(conda, table)
    logins: PluginLogins | None = None
    if access is None:
        access = found = channel_access(conda, table, env)
        if found.has_plugins:
            from resume_dl.settings.plugin_logins import CondaLogins

            logins = CondaLogins(conda, found.plugin_channel, environment(env, prefix))
    speeds = read_speeds(speeds_file(paths.state), now=time.time())
    return Setup(paths, conda, table, options, env, blocks, rules, access, speeds, logins)


class EngineAccess(NamedTuple):
    """The network settings of an engine, and the keyring for its logins (for pip's packages)."""

    network: NetworkSettings
    keyring: Keyring | None = None


@contextmanager
def engine_for(
    setup: Setup,
    reporter: Reporter,
    cancelled: Callable[[], bool],
    *,
    access: EngineAccess | None = None,
) -> Iterator[WatchedEngine]:
    """Make an engine; its transport and its trace are closed at the end of the block.

    ``access``: in place of conda's. Raises NotWritableError if the trace cannot be written.
    """
    from resume_dl.transport.client import HttpTransport

    logins = setup.logins if access is None else None
    access = access or EngineAccess(setup.load_network())
    tracer: TraceWriter | None = None
    warn = functools.partial(reporter.message, level="warning")
    transport = HttpTransport(access.network, warn=warn, keyring=access.keyring, logins=logins)
    try:
        if trace := setup.options.debug_trace:
            refuse_others_link(trace, "choose another file with --debug-trace")
            tracer = TraceWriter(trace)
        engine = Engine(
            transport,
            reporter,
            setup.options.policy(),
            limit_rate=setup.options.limit_rate,
            cancelled=cancelled,
            tracer=tracer,
            network=setup.network,
        )
        noted = UnfinishedNotes(setup.paths.unfinished)
        notes = RunNotes(noted, setup.options.command, environment=environment_of(setup.env))
        watched = WatchedEngine(engine, setup.blocks, reporter, notes)
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
