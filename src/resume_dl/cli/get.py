"""``resume-dl get``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, transfer_of
from resume_dl.cli.summary import say_files
from resume_dl.model.url import redact

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


@click.command("get")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@option("--sha256", metavar="HEX", help="What the file must hash to.")
@option("--md5", metavar="HEX", help="The same where only an MD5 is known.")
@option("-o", "--output", "output", metavar="FILE|DIR/", help="The file to write, or the folder to write into.")
@option("--force", is_flag=True, help="Overwrite another file that is there.")
@option("--mirror-url", "mirror_url", multiple=True, metavar="URL", help="The same bytes elsewhere; repeatable.")
@transfer_options
def command(urls: tuple[str, ...], **options: Any) -> int:
    """Download any URL, resumable; verified where a digest is given."""
    from resume_dl.app.get import GetRequest, get
    from resume_dl.transfer.setup import load_setup

    for url in (*urls, *options["mirror_url"]):
        try:
            urlsplit(url)
        except ValueError as error:
            raise click.UsageError(f"no address can be read from {redact(url)}: {error}") from error
    named = options["output"]
    if named == "-":
        raise click.UsageError(
            "-o -: standard output is not supported, since nothing is given out before it is verified; "
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
