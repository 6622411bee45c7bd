"""``README.txt``: what a bundle is, what is in it, and the commands that check and install it.

Plain text of short lines. Commands are the same on every system where possible: conda, pip and Python accept ``/`` on
Windows too. The text does not depend on the machine or the time.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from resume_dl.model.bundle import CHANNEL, NAMESPACE, SIGNATURE, SUMS, WHEELS, BundlePlatform, Manifest
from resume_dl.model.units import show_bytes

_WIDTH = 100
_ASKED = {"specs": "conda", "pip": "pip", "files": "files", "channels": "channels"}
"""Keys of ``Manifest.request`` -> their labels."""


def write_readme(manifest: Manifest, *, signed: bool = False) -> Iterator[bytes]:
    """The text in chunks: UTF-8 with LF. ``manifest`` may lack its ``files``, of which this is one."""
    conda = [each for each in manifest.platforms if each.conda]
    pip = [each for each in manifest.platforms if each.pip]
    parts = [_head(manifest), _contents(manifest), *_delta(manifest), _check(signed=signed), _install()]
    if all(each.included for each in manifest.packages):  # plain conda and pip need all files
        by_sha256 = any(each.kind == "conda" and not each.md5 for each in manifest.packages)
        parts += [_by_conda(conda, pip, by_sha256=by_sha256)] if conda else []
        parts += [_by_pip(pip, alone=not conda)] if pip else []
        parts += [_for_many(conda, pip)]
    yield "\n".join(parts).encode()


def _head(manifest: Manifest) -> str:
    what = "conda and pip packages"
    kinds = {each.kind == "conda" for each in manifest.packages}
    is_whole = all(each.included for each in manifest.packages) and not manifest.request.get("passed_over")
    all_of_it = "Everything that each platform below needs" + ("" if is_whole else ", but what is named below,")
    if len(kinds) == 1:
        what = "conda packages" if True in kinds else "packages for pip"
    return _section(
        "Offline bundle",
        f"""
        This folder holds {what} for offline machines. {all_of_it} is in it.
        It was made by {manifest.created_by}, which is not needed here: Python 3.8 or newer is, and what installs it
        (conda, mamba, micromamba or pip). Write python3 for python where there is no python.
        """,
        "All commands below are for a terminal in this folder:",
        (
            'Linux, macOS:     cd "/media/stick/the bundle"',
            'Windows, cmd:     cd /d "E:\\the bundle"',
            '      PowerShell: cd "E:\\the bundle"',
        ),
    )


def _contents(manifest: Manifest) -> str:
    asked = [f"{title}: {', '.join(texts)}" for title, texts in _requested(manifest.request)]
    platforms = []
    for each in manifest.platforms:
        python = [f"Python {each.python}"] if each.python else []
        counts = [_count(each.conda, "conda package"), _count(each.pip, "pip package")]
        virtual = [f"    solved for {', '.join(each.virtual_packages)}"] if each.virtual_packages else []
        newest = [f"    without conda packages newer than {each.exclude_newer}"] if each.exclude_newer else []
        newest += (
            [f"    without pip packages uploaded after {each.pip_exclude_newer}"] if each.pip_exclude_newer else []
        )
        platforms += [f"{each.platform}: {', '.join([*python, *filter(None, counts)])}", *virtual, *newest]
    passed_over = manifest.request.get("passed_over")
    lines = [str(each) for each in passed_over] if isinstance(passed_over, list | tuple) else []
    return _section(
        "What is in it",
        *(("It was asked for:", tuple(asked)) if asked else ()),
        *(
            ("Not in it: what these lines of the files name. Only pip itself can take it:", tuple(lines))
            if lines
            else ()
        ),
        "It is for:",
        tuple(platforms),
        """
        manifest.json lists every file with its size, digest, origin and licence; sbom.cdx.json says the same to
        programs that read CycloneDX.
        """,
    )


def _delta(manifest: Manifest) -> Iterator[str]:
    left_out = [each for each in manifest.packages if not each.included]
    if left_out:
        size = show_bytes(sum(each.size for each in left_out))
        yield _section(
            "What is not in it",
            f"""
            {_count(left_out, "package")} ({size}) that the target had when this was made. python install.py
            takes them from the target's own caches, checks each, and names what it does not find: "included":false
            marks them in manifest.json. Plain conda and pip, and other machines, need a whole bundle.
            """,
        )


def _check(*, signed: bool) -> str:
    signature = (
        f"""
        {SIGNATURE} is an OpenSSH signature of manifest.json. With the signer's public key in a file allowed_signers
        (ssh-keygen(1)):
        """,
        (
            "python verify.py --allowed-signers allowed_signers --signer IDENTITY",
            f"ssh-keygen -Y verify -f allowed_signers -I IDENTITY -n {NAMESPACE} -s {SIGNATURE} < manifest.json",
        ),
    )
    return _section(
        "Check it",
        """
        A copy can be damaged on the way, and so can the scripts: check these first, with programs that were here
        before.
        """,
        (
            f"Linux:    grep '\\.py$' {SUMS} | sha256sum -c",
            f"macOS:    grep '\\.py$' {SUMS} | shasum -a 256 -c",
            "Windows:  in PowerShell, compared by eye",
            f"    Get-FileHash *.py; Select-String '\\.py$' {SUMS}",
        ),
        "This finds damaged files, and says what to copy again:",
        ("python verify.py",),
        "Without Python:",
        (
            f"Linux:    sha256sum -c {SUMS}",
            f"macOS:    shasum -a 256 -c {SUMS}",
            "Windows:  in PowerShell, silent where all is well",
            f"    Get-Content -Encoding UTF8 {SUMS} | ForEach-Object {{ $sum, $file = $_ -split '  ', 2;",
            '        if ((Get-FileHash -LiteralPath $file).Hash -ne $sum) { "damaged: $file" } }',
        ),
        """
        That finds accidents only: an attacker can change the lists too. Against that, compare the manifest's digest
        with the one that was printed when the bundle was made and that reached you another way:
        """,
        ("python verify.py --manifest-sha256 DIGEST",),
        *(signature if signed else ()),
    )


def _install() -> str:
    return _section(
        "Install it",
        """
        This checks every file, then makes the environment NAME with this machine's conda, mamba, micromamba or pip,
        without a network:
        """,
        ("python install.py -n NAME",),
        """
        Without conda NAME is a virtual environment in the folder that WORKON_HOME names, else in .virtualenvs in your
        home, where the bundle has packages for pip alone. Into a folder of your own choice, with conda or without:
        """,
        ("python install.py -p FOLDER",),
        "python install.py --help says what else it can do.",
    )


def _by_conda(platforms: Sequence[BundlePlatform], pip: Sequence[BundlePlatform], *, by_sha256: bool) -> str:
    wheels = {each.platform for each in pip}
    commands: list[str] = []
    for each in platforms:
        commands += [f"{each.platform}:", f"    conda create --offline -n NAME --file {each.explicit}"]
        if each.platform in wheels:
            commands += ["    conda activate NAME", f"    {_pip(each)}"]
    virtual = [name.split("=") for each in platforms for name in each.virtual_packages]
    newest = max((name[1] for name in virtual if name[0] == "__cuda" and name[1:]), key=_numbers, default="")
    override = (
        f"""
        Where the driver for CUDA {newest} is not installed yet, conda does not solve for it; tell it first:
        """,
        (
            f"Linux:            export CONDA_OVERRIDE_CUDA={newest}",
            f"Windows, cmd:     set CONDA_OVERRIDE_CUDA={newest}",
            f"      PowerShell: $env:CONDA_OVERRIDE_CUDA = '{newest}'",
        ),
    )
    return _section(
        "By plain conda",
        """
        conda does not check files that it takes from a disk, so check the bundle first. NAME must be a new name: conda
        removes an environment of that name. The lists hold exactly what was solved:
        """,
        tuple(commands),
        "The lists need a path to this folder of ASCII characters only (blanks may be in it)"
        + (", and conda 24.9 or newer, because some packages have a sha256 only. " if by_sha256 else ". ")
        + "These two ways work from everywhere; conda solves once more, from what is here:",
        (
            "conda env create --offline -n NAME --file environment.yml",
            f"conda create --offline -n NAME --override-channels -c ./{CHANNEL} PACKAGE ...",
        ),
        *(override if newest else ()),
    )


def _by_pip(platforms: Sequence[BundlePlatform], *, alone: bool) -> str:
    lists = tuple(f"{each.platform}, Python {each.python}:\n    {_pip(each)}" for each in platforms)
    return _section(
        "By plain pip",
        "Into a virtual environment, by the Python that the wheels are for"
        + (". " if alone else ", where the conda packages are not wanted. ")
        + "FOLDER must be outside of this folder: a bundle to which something was added may be refused.",
        (
            "python -m venv FOLDER",
            "Linux, macOS:  . FOLDER/bin/activate",
            "Windows:       FOLDER\\Scripts\\activate",
        ),
        lists,
        "uv, or a pip that reads lock files, takes the file for all platforms:",
        ("uv pip install --offline -r pylock.toml", "python -m pip install --no-index -r pylock.toml"),
    )


def _for_many(conda: Sequence[BundlePlatform], pip: Sequence[BundlePlatform]) -> str:
    commands = (
        [f"conda create -n NAME --override-channels -c http://SERVER/BUNDLE/{CHANNEL} PACKAGE ..."] if conda else []
    )
    commands += ["python -m pip install --index-url http://SERVER/BUNDLE/simple/ PACKAGE ..."] if pip else []
    return _section(
        "For many machines",
        "Any web server that serves this folder is a conda channel and a package index for all of them:",
        tuple(commands),
        *(["pip wants --trusted-host SERVER where that has no HTTPS."] if pip else []),
    )


def _pip(platform: BundlePlatform) -> str:
    return f"python -m pip install --no-index --find-links {WHEELS} --require-hashes -r {platform.requirements}"


def _requested(request: Mapping[str, object]) -> Iterator[tuple[str, list[str]]]:
    for key, title in _ASKED.items():
        texts = request.get(key)
        if isinstance(texts, list | tuple) and texts:
            yield title, [str(each) for each in texts]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"[0-9]+", version)]


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}" if things else ""


def _section(title: str, *parts: str | tuple[str, ...]) -> str:
    """A section: wrapped paragraphs, and blocks of lines, which are indented verbatim."""
    blocks = [f"{title}\n{'=' * len(title)}"]
    for part in parts:
        if isinstance(part, tuple):
            blocks.append(textwrap.indent("\n".join(part), "    "))
        else:
            blocks.append(textwrap.fill(" ".join(part.split()), _WIDTH, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(blocks) + "\n"
