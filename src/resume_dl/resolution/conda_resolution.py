"""Resolution of conda specs and lists into artifacts: channels, indexes, solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from resume_dl.errors import ConfigurationError
from resume_dl.indexes import shards
from resume_dl.indexes.conda_indexes import CondaIndexes
from resume_dl.indexes.copies import Freshness
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel
from resume_dl.model.target import TargetMachine
from resume_dl.ports import Reporter
from resume_dl.resolution.cutoff import exclude_newer
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolution.lock_files import is_conda_lock, read_conda_locks
from resume_dl.resolution.solver_wait import SolverWait
from resume_dl.resolve.conda_solver import solve_with_conda
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.explicit import is_explicit, parse_explicit
from resume_dl.resolve.installed import Installed, read_installed
from resume_dl.resolve.request import RepodataFile, Solution, SolveRequest
from resume_dl.resolve.solve import check_specs, package_names, solve
from resume_dl.resolve.specs import channels_of_specs
from resume_dl.resolve.virtual import defaults, target
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.channel_access import ChannelAccess
from resume_dl.settings.channels import NODEFAULTS, expand_channels, requested_channels
from resume_dl.settings.condarc import native_subdir
from resume_dl.text_encoding import read_text
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.watched_engine import WatchedEngine

if TYPE_CHECKING:  # imports msgspec, which resume-dl.pyz lacks
    from resume_dl.indexes.shards.channels import ChannelShards


class Resolver:
    """Resolves one request; ``engine`` fetches indexes. ``worker`` is left running, as unpacking uses it later."""

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        engine: WatchedEngine,
        worker: RattlerWorker,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._request = request
        self._setup = setup
        self._reporter = reporter
        self._worker = worker
        self._cancelled = cancelled
        worker.waits = SolverWait(reporter, cancelled)
        self._reported: set[str] = set()
        self.has_locks = False
        """Whether the request has lock files, which differ from explicit lists: one file has several platforms."""
        folder = setup.paths.cache / "repodata"
        options = setup.options
        self._shards: ChannelShards | None = None
        if request.shards and request.solver != "conda" and shards.are_readable():
            from resume_dl.resolution.conda_shards import channel_shards

            self._shards = channel_shards(setup, reporter, engine, worker, offline=self.offline, cancelled=cancelled)
        self.indexes = CondaIndexes(
            engine,
            setup.places,
            folder,
            reporter,
            offline=self.offline,
            largest=options.max_index_size,
            freshness=Freshness(options.refresh, options.index_max_age),
            index_from=setup.index_from,
            shards=self._shards,
        )

    def close(self) -> None:
        """Remove the solver's temporary files. Never raises."""
        if self._shards is not None:
            self._shards.close()

    @property
    def offline(self) -> bool:
        """Whether network requests are forbidden."""
        return self._setup.options.offline or self._setup.conda.offline

    def platforms(self) -> tuple[str, ...]:
        """The subdirs to solve for."""
        return self._request.platforms or (self._setup.conda.subdir or native_subdir(),)

    def resolve(
        self, *, fresh: bool, disputes: Mapping[str, str] | None = None
    ) -> tuple[list[tuple[str, Solution]], tuple[Artifact, ...]]:
        """Return a solution for each platform and the artifacts of explicit lists; ``fresh``: renew the indexes first.

        ``disputes`` is for ``CondaIndexes.fresher``: the index's digest -> the digest of the bytes that sources serve.
        Raises a ResolutionError, ConfigurationError or IntegrityError.
        """
        specs, channels, explicit = list(self._request.specs), list(self._request.channels), list[Artifact]()
        for path in self._request.files:
            self._read_file(path, specs, channels, explicit)
        if not specs and not explicit and not self.has_locks:
            raise ConfigurationError("nothing to fetch", hint="name a package, as in: resume-dl fetch pytorch=1.7")
        platforms = self.platforms()
        self.check_targets(platforms)
        if not specs:
            return [], tuple(explicit)
        if self._request.override_channels and not any(name != NODEFAULTS for name in channels):
            raise ConfigurationError(
                "--override-channels leaves no channel", hint="name one or more with -c, as in -c conda-forge"
            )
        self._report_missing_environment()
        names = requested_channels(channels, self._setup.conda, override=self._request.override_channels)
        names = tuple(dict.fromkeys((*names, *channels_of_specs(tuple(specs)))))
        solutions = []
        check_specs(specs, self._worker)
        for platform in platforms:
            expanded = self.channels(names, platform)
            request = self._solve_request(specs, expanded, platform)
            solutions.append((platform, self._solve(request, self._worker, fresh=fresh, disputes=disputes)))
        for _, solution in solutions:
            for note in solution.notes:
                self._reporter.message(note, level="info")
        return solutions, tuple(explicit)

    def channels(self, names: Sequence[str], platform: str) -> tuple[Channel, ...]:
        """Return the channels of these names for a platform. Raises ConfigurationError for one that is not allowed."""
        expanded = expand_channels(names, self._setup.conda, self._setup.table, subdirs=(platform,))
        self._check_allowed(expanded)
        expanded = tuple(self._without_mirrors_if_private(channel, platform) for channel in expanded)
        self._warn_retired(expanded)
        return expanded

    def check_targets(self, platforms: Sequence[str]) -> None:
        """Refuse a malformed platform or virtual package early, as a platform becomes part of URLs."""
        for platform in platforms:
            defaults(platform)
            target(
                platform,
                host=native_subdir(),
                detected=(),
                overrides=self._request.virtual_packages,
                cuda=self._request.cuda,
                env=self._setup.env,
            )

    def _check_allowed(self, channels: Sequence[Channel]) -> None:
        """Refuse channels that conda's settings forbid."""
        for channel in channels:
            if not self._setup.rules.permit_channel(channel.client_base):
                raise _not_allowed(f"the channel {channel.name} ({channel.client_base})")

    def _warn(self, text: str) -> None:
        self._reporter.message(text, level="warning")

    def _without_mirrors_if_private(self, channel: Channel, platform: str) -> Channel:
        """Return the channel; if a conda plugin provides its login, it is marked as having no mirrors.

        The plugin is asked already: conda's start is too slow for a request that waits for it.
        """
        access = self._setup.access
        if not isinstance(access, ChannelAccess) or not access.wants_plugin(channel.client_base):
            return channel
        if self._setup.logins is not None and not self.offline:
            url = channel.file_url(platform, "repodata.json")
            self._setup.logins.login(url, cancelled=self._cancelled, warn=self._warn)
        return changed(channel, origin=None, canonical_base=channel.client_base)

    def _report_missing_environment(self) -> None:
        """Report that the environment of ``-n`` or ``-p`` does not exist, which may be a typo."""
        prefix = self.prefix()
        if (self._request.name is None and prefix is None) or (prefix and (prefix / "conda-meta").is_dir()):
            return
        what = f"at {prefix}" if self._request.prefix is not None else f"named {self._request.name}"
        if what not in self._reported:
            self._reported.add(what)
            self._reporter.message(f"there is no environment {what} yet: solving for a new one", level="info")

    def _warn_retired(self, channels: Sequence[Channel]) -> None:
        """Warn if the condarc names a retired mirror; the other mirrors serve its channels."""
        gone = {mirror.name: mirror for c in channels if (mirror := self._setup.table.retired(c.client_base.reveal()))}
        for mirror in gone.values():
            if mirror.name not in self._reported:
                self._reported.add(mirror.name)
                text = f"your conda settings name {mirror.title or mirror.name}, which is retired: {mirror.note}"
                self._reporter.message(text.rstrip(": "), level="warning")

    def _read_file(self, path: Path, specs: list[str], channels: list[str], explicit: list[Artifact]) -> None:
        if is_conda_lock(path):
            self.has_locks = True
            for lock in read_conda_locks(
                path,
                platforms=self.platforms(),
                environments=self._request.environments,
                canonical=self._setup.table.canonical,
            ):
                self._reporter.message(lock.note, level="info")
                self._add_listed(lock.conda, path, explicit)
            return
        try:
            text = read_text(path)
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {path}: {error}", hint="check the path; it must be a text file"
            ) from error
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path} is not text in {error.encoding}", hint="save it as UTF-8") from error
        if is_explicit(text):
            listed = parse_explicit(text, canonical=self._setup.table.canonical, where=str(path))
            self._add_listed(listed, path, explicit)
        elif path.suffix in {".yml", ".yaml"}:
            environment = read_environment_file(path)
            specs += environment.specs
            channels += [name for name in environment.channels if name not in channels]
        else:
            raise ConfigurationError(
                f"{path} is neither an environment.yml nor an @EXPLICIT list", hint="other formats are not supported"
            )

    def _add_listed(self, listed: Sequence[Artifact], path: Path, explicit: list[Artifact]) -> None:
        """Add the packages that a list or lock file names. Raises ConfigurationError if conda may not use one."""
        for artifact in listed:
            if artifact.client_url is not None and not self._setup.rules.permit_file(artifact.client_url):
                raise _not_allowed(f"{artifact.client_url} of {path}")
        explicit += listed

    def _solve_request(self, specs: Sequence[str], channels: tuple[Channel, ...], platform: str) -> SolveRequest:
        conda = self._setup.conda
        prefix = self.prefix()
        installed = Installed() if prefix is None else read_installed(prefix)
        machine = self._request.machines.get(platform, TargetMachine(platform=platform))
        return SolveRequest(
            specs=tuple(specs),
            channels=channels,
            platform=platform,
            channel_priority=self._request.channel_priority or conda.channel_priority,
            elsewhere=platform in self._request.machines,
            virtual_packages=(*machine.virtual_packages, *self._request.virtual_packages),
            cuda=self._request.cuda or machine.cuda,
            pinned=conda.pinned_packages,
            add_pip=conda.add_pip_as_python_dependency,
            use_only_tar_bz2=conda.use_only_tar_bz2,
            exclude_newer=exclude_newer(self._request, conda, datetime.now(timezone.utc)),
            installed=installed,
            aggressive_updates=conda.aggressive_update_packages,
            default_packages=conda.create_default_packages,
            no_deps=self._request.no_deps,
            only_deps=self._request.only_deps,
        )

    def prefix(self) -> Path | None:
        """The folder of the environment of ``-p`` or ``-n``, which may not exist yet; None without either option."""
        if self._request.prefix is not None:
            return self._request.prefix
        if self._request.name is None:
            return None
        if self._request.name == "base" and self._setup.conda.root_prefix is not None:
            return self._setup.conda.root_prefix
        places = [folder / self._request.name for folder in self._setup.conda.envs_dirs]
        return next((place for place in places if place.is_dir()), places[0] if places else None)

    def _solve(
        self, request: SolveRequest, worker: RattlerWorker, *, fresh: bool, disputes: Mapping[str, str] | None
    ) -> Solution:
        if self._request.solver == "conda":
            if not self._setup.conda.conda_command:
                raise ConfigurationError(
                    "--solver conda needs a conda, and none was found", hint="set RESUME_DL_CONDA, or omit the option"
                )
            self._reporter.message(f"solving with conda for {request.platform}", level="info")
            return solve_with_conda(
                self._setup.conda.conda_command,
                request,
                prefix=self.prefix(),
                pkgs_dirs=self._setup.conda.pkgs_dirs,
                canonical=self._setup.table.canonical,
                offline=self.offline,
                env=self._setup.env,
                waits=worker.waits,
            )
        files = self._indexes(request)
        if fresh:
            files = self.indexes.fresher(files, disputes)
        self._reporter.message(f"solving for {request.platform}", level="info")
        return self.indexes.solved(files, lambda files: solve(request, files, worker, env=self._setup.env))

    def _indexes(self, request: SolveRequest) -> list[RepodataFile]:
        subdirs = dict.fromkeys((request.platform, "noarch"))
        self._reporter.message(f"reading the index of {', '.join(c.name for c in request.channels)}", level="info")
        wanted = [(channel, subdir) for channel in request.channels for subdir in subdirs]
        return self.indexes.fetch(wanted, package_names(request))


def _not_allowed(what: str) -> ConfigurationError:
    hint = "see allowlist_channels and denylist_channels in `conda config --show`"
    return ConfigurationError(f"your conda settings do not allow {what}", hint=hint)
