"""``resume-dl get``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from resume_dl.cli.help_sections import WHAT, WHERE_FROM, WHERE_TO, SectionedCommand
from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, transfer_of
from resume_dl.cli.summary import say_files
from resume_dl.model.url import redact

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


@click.command(
    "get",
    cls=SectionedCommand,
    examples=(
        "resume-dl get https://example.org/data.tar",
        "resume-dl get https://example.org/data.tar --sha256 HEX -o data/",
        "resume-dl get https://example.org/a.bin --mirror-url https://mirror.example/a.bin",
    ),
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@option("--sha256", metavar="HEX", help="The file's SHA-256.", section=WHAT)
@option("--md5", metavar="HEX", help="The file's MD5, if no SHA-256 is known.", section=WHAT)
@option(
    "-o",
    "--output",
    "output",
    metavar="FILE|DIR/",
    help="The file or folder to write to.",
    section=WHERE_TO,
)
@option("--force", is_flag=True, help="Overwrite an existing file.", section=WHERE_TO)
@option(
    "--mirror-url",
    "mirror_url",
    multiple=True,
    metavar="URL",
    help="Another URL of the same file; repeatable.",
    section=WHERE_FROM,
)
@transfer_options
def command(urls: tuple[str, ...], **options: Any) -> int:
    """Download any URL, resumable, and verified if a digest is given."""
    from resume_dl.app.get import GetRequest, get
    from resume_dl.transfer.setup import load_setup

    for url in (*urls, *options["mirror_url"]):
        try:
            urlsplit(url)
        except ValueError as error:
            raise click.UsageError(f"{redact(url)} is not a valid URL: {error}") from error
    named = options["output"]
    if named == "-":
        raise click.UsageError(
            "-o -: standard output is not supported, since bytes are released only after verification; "
            "name a file and read that (a file called - is ./-)"
        )
    output = None if named is None else Path(named)
    is_folder = output is not None and (named.endswith(_SEPARATORS) or output.is_dir())
    request = GetRequest(
        urls=urls,
        sha256=options["sha256"],
        md5=options["md5"],
        output=output if output is None or not is_folder else None,
        folder=output if is_folder else None,
        force=options["force"],
        mirror_urls=tuple(options["mirror_url"]),
    )

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        return get(request, load_setup(transfer_of(options), os.environ), reporter, cancelled=cancelled)

    return run("get", options, call, report=say_files)[1]
