"""``resume-dl bundle install``: the same code as the ``install.py`` in a bundle."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.bundle_verify import trust_options
from resume_dl.cli.help_sections import OUTPUT, WHAT, WHERE_FROM, WHERE_TO, SectionedCommand, SectionedOption
from resume_dl.cli.option_values import environment_folders, environment_names, platform_names
from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json, stopped, tell
from resume_dl.errors import ConfigurationError, IntegrityError, ResumeDLError, StoreError, TransferError

if TYPE_CHECKING:
    from resume_dl.offline_tools.installation.options import Outcome

_COMMAND = "bundle install"
_PLACE = click.Path(path_type=Path)
_ERRORS: dict[int, type[ResumeDLError]] = {1: TransferError, 2: ConfigurationError, 4: IntegrityError, 5: StoreError}
_STDERR = 2


def _not_empty(context: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    if value == "":  # Path would take it for the current folder
        raise click.BadParameter("an empty name is not a folder", context, option)
    return None if value is None else Path(value)


@click.command(
    "install",
    cls=SectionedCommand,
    examples=(
        "resume-dl bundle install torch -n torch",
        "resume-dl bundle install torch.tar -p ./env --manifest-sha256 HEX",
        "resume-dl bundle install torch -n torch --dry-run",
    ),
)
@click.argument("bundle", type=_PLACE, metavar="FOLDER|TAR")
@click.option(
    "-n",
    "--name",
    "environment",
    default="",
    shell_complete=environment_names,
    help="The environment, by its name.",
    cls=SectionedOption,
    section=WHERE_TO,
)
@click.option(
    "-p",
    "--prefix",
    "folder",
    callback=_not_empty,
    shell_complete=environment_folders,
    help="The environment, by its folder.",
    cls=SectionedOption,
    section=WHERE_TO,
)
@click.option(
    "--platform",
    "subdir",
    shell_complete=platform_names,
    metavar="SUBDIR",
    default="",
    help="Default: this machine's.",
    cls=SectionedOption,
    section=WHAT,
)
@trust_options
@click.option(
    "--with",
    "client",
    type=click.Choice(["conda", "mamba", "micromamba", "pip"]),
    help="Default: the first one found.",
    cls=SectionedOption,
    section=WHAT,
)
@click.option(
    "--pkgs-dir",
    "pkgs_dir",
    multiple=True,
    type=_PLACE,
    metavar="DIR",
    help="Packages of a delta; repeatable.",
    cls=SectionedOption,
    section=WHERE_FROM,
)
@click.option(
    "--wheels",
    multiple=True,
    type=_PLACE,
    metavar="DIR",
    help="Wheels of a delta; repeatable.",
    cls=SectionedOption,
    section=WHERE_FROM,
)
@click.option(
    "--unpack-to",
    "unpack_to",
    type=_PLACE,
    metavar="DIR",
    help="Keep the folder that a tar was unpacked into.",
    cls=SectionedOption,
    section=WHERE_TO,
)
@click.option(
    "--dry-run",
    "planned",
    is_flag=True,
    help="Verify, and show what would be done.",
    cls=SectionedOption,
    section=OUTPUT,
)
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Accepted and ignored: there are no questions.",
    cls=SectionedOption,
    section=OUTPUT,
)
@option(
    "--json", "json", is_flag=True, help="One JSON object on stdout at the end, nothing else there.", section=OUTPUT
)
def command(bundle: Path, *, json: bool, yes: bool, **options: Any) -> int:
    """Verify a bundle, then install it with the conda and pip of this machine; no network is used."""
    # Other parameter names than fetch's, so that config.toml's values for fetch do not apply.
    del yes

    def call() -> None:
        from resume_dl.offline_tools.commands.install import ready
        from resume_dl.offline_tools.installation.install_bundle import install
        from resume_dl.offline_tools.installation.options import InstallError, Options

        wanted = Options(
            name=options["environment"],
            prefix=options["folder"],
            platform=options["subdir"],
            client=options["client"] or "",
            wheels=options["wheels"],
            pkgs_dirs=options["pkgs_dir"],
            manifest_sha256=options["manifest_sha256"],
            allowed_signers=options["allowed_signers"],
            signer=options["signer"],
            dry_run=options["planned"],
            unpack_to=options["unpack_to"],
        )
        started = time.monotonic()
        output = _STDERR if json else 1
        try:
            outcome = install(bundle, wanted, log=tell, env=os.environ, output=output)
        except InstallError as error:
            raise _ERRORS[error.code](str(error), hint=error.hint) from error
        except KeyboardInterrupt as error:
            raise stopped() from error
        if json:
            say_json(_as_json(outcome, time.monotonic() - started))
        elif not outcome.planned:
            say(ready(outcome))

    return guarded(_COMMAND, call, as_json=json)


def _as_json(outcome: Outcome, elapsed: float) -> dict[str, Any]:
    """The object of docs/interface.md, with the environment and the client."""
    status = "planned" if outcome.planned else "cached"
    sizes = [each["size"] for each in outcome.packages]
    return {
        "schema": 1,
        "command": _COMMAND,
        "ok": True,
        "exit_code": 0,
        "elapsed": round(elapsed, 3),
        "error": None,
        "totals": {
            "artifacts": len(sizes),
            "bytes": sum(sizes),
            "downloaded": 0,
            "resumed": 0,
            "cached": 0 if outcome.planned else sum(sizes),
            "wasted": 0,
        },
        "artifacts": [_artifact(each, status) for each in outcome.packages],
        "prefix": str(outcome.prefix),
        "existed": outcome.existed,
        "platform": outcome.platform,
        "client": outcome.client or None,
        "trust": outcome.trust,
        "notes": outcome.warnings,
    }


def _artifact(entry: dict[str, Any], status: str) -> dict[str, Any]:
    """An entry as in ``fetch``; ``path`` is the file, in the bundle or on this machine."""
    names = ("name", "version", "build", "subdir", "channel", "kind", "url", "size", "sha256", "md5")
    return {
        **{name: entry[name] for name in names},
        "filename": entry["path"].rpartition("/")[2],
        "path": entry["found"],
        "status": status,
        "sources": [],
        "error": None,
    }
