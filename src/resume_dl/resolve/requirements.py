"""Parser of pip's requirement files: requirements.txt with its includes, and pyproject.toml.

Source: pip.pypa.io, "Requirements File Format"; PEP 508 for a requirement, PEP 621 for ``[project]``, PEP 751 for the
name of a lock file. Of the libraries for this, pip-requirements-parser rests since 2022 and requirements-parser leaves
the options out; so lines and options are parsed here, and requirements by ``packaging``.

Errors quote lines as in the file, with unexpanded ``${VARIABLES}``, and scrubbed.
"""

from __future__ import annotations

import codecs
import locale
import optparse
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urljoin, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from resume_dl.errors import ConfigurationError, InvalidSpecError
from resume_dl.model.pip import FindLinks, LeftToPip, PipFile, PipIndexes, PipRequirement, index_from, place_from
from resume_dl.model.url import RedactedUrl, scrub
from resume_dl.resolve.environment_file import read_environment_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Fetch = Callable[[RedactedUrl], bytes]
"""A function that reads an included file by its URL. Raises a ResumeDLError."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, which is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODING = re.compile(rb"#.*?coding[:=]\s*([-\w.]+)")
_COMMENT = re.compile(r"(^|\s+)#.*$")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_LOCK = re.compile(r"pylock(?:\.[^.]+)?\.toml")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_NAMED = re.compile(r"[A-Za-z0-9][-\w.]*\s*(?:\[[^\]]*\])?(?:\s+@|@\s)")
"""``name @ …``, which is never a path."""
_ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")
_BUILT_BY_DEFAULT = ("setuptools>=40.8.0", "wheel")
"""Default for a project that names none (PEP 517, and pip's own choice)."""
_ASKED_WHILE_BUILDING = {"setuptools": ("wheel",), "hatchling": ("editables",)}
"""Further needs of backends: wheel for setuptools before 70.1, editables for ``-e``."""
_HASH = re.compile(r"sha(?:256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")


def read_requirements(path: Path, *, env: Mapping[str, str], fetch: Fetch | None = None) -> PipFile:
    """Read a pylock.toml (only named here), a pyproject.toml, or else a requirements.txt.

    Of an environment.yml (conda's) it is the part below ``pip:``, which is written like a requirements.txt.

    ``fetch`` reads files that are included by an http(s) address. Raises ConfigurationError for a file that cannot be
    read or understood, InvalidSpecError for a requirement, each with file and line.
    """
    if _LOCK.fullmatch(path.name):
        return PipFile(lock=path.absolute())
    if path.suffix == ".toml":
        return _read_project(path)
    reader = _Reader(env, fetch)
    if path.suffix in {".yml", ".yaml"}:
        lines = "\n".join(read_environment_file(path).pip)
        reader.read_text(lines, path.resolve().parent, f"{path}, pip", constraint=False)
    else:
        reader.read(path.resolve(), str(path), constraint=False)
    return reader.found()


def parse_requirement(text: str, where: str = "") -> PipRequirement:
    """One requirement, as on pip's command line: PEP 508, or the address of a wheel or a source archive.

    Raises InvalidSpecError for anything else, including paths and version control URLs, for which nothing can be
    fetched.
    """
    found = _parse(text.strip())
    if isinstance(found, PipRequirement):
        return changed(found, where=where)
    raise InvalidSpecError(
        f"{where + ': ' if where else ''}{scrub(text)!r} is {found.what}", part=scrub(text), hint=found.hint
    )


def is_left_to_pip(text: str) -> bool:
    """Whether only pip can handle it: a path, a local archive, version control, an archive without a name."""
    found = _parse(text.strip())
    return isinstance(found, _Other) and found.valid


@dataclass(frozen=True, slots=True)
class _Other:
    """A text that is not a requirement for an index."""

    what: str
    hint: str
    valid: bool = True
    """Whether pip itself handles it."""


_INVALID = _Other(
    "no requirement", "write it as in torch==1.6.0, torch[extra]>=1.6; python_version < '3.9'", valid=False
)
_UNREADABLE = _Other("at an invalid URL", "write it as: name @ https://host/file.whl", valid=False)
_NOT_FETCHED = "only files of an index or a URL are fetched; pip itself handles the rest"
_PATH = _Other("a path on this machine", _NOT_FETCHED)


def _parse(text: str) -> PipRequirement | _Other:
    if _is_archive(text):  # it may look like a name; to pip it is a file
        return _PATH
    address, mark, marker = text.partition(" ;") if _SCHEME.match(text) else (text, "", "")
    try:
        requirement = Requirement(_named(address.strip()) + (f" ;{marker}" if mark else ""))
        urlsplit(requirement.url or "")
    except InvalidRequirement:
        return _INVALID if _NAMED.match(text) else _what_else(text)
    except ValueError:
        return _UNREADABLE
    if requirement.url is None:
        return _requirement(requirement)
    scheme = _SCHEME.match(requirement.url)
    if scheme is None or scheme["scheme"].lower() not in {"http", "https"}:
        return _what_else(requirement.url)
    url, _, fragment = requirement.url.partition("#")
    hashes = tuple(
        part.replace("=", ":", 1) for part in fragment.split("&") if _HASH.fullmatch(part.replace("=", ":", 1))
    )
    return changed(_requirement(requirement), url=RedactedUrl(url), hashes=hashes)


def _named(text: str) -> str:
    """``name @ address`` for the bare address of an archive whose name says what it is; else the text itself."""
    if not _SCHEME.match(text):
        return text
    filename = unquote(urlsplit(text).path.rpartition("/")[2])
    try:
        name = (parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename)(filename)[0]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return text
    return f"{name} @ {text}"


def _requirement(found: Requirement) -> PipRequirement:
    return PipRequirement(
        name=found.name,
        extras=tuple(sorted(found.extras)),
        specifier=str(found.specifier),
        marker="" if found.marker is None else str(found.marker),
    )


def _what_else(text: str) -> _Other:
    scheme = _SCHEME.match(text)
    if scheme is not None and "+" in scheme["scheme"]:
        return _Other("from version control", _NOT_FETCHED)
    if scheme is not None and scheme["scheme"].lower() != "file":
        return _Other("an archive without a package name in its file name", "write it as: name @ URL")
    plain = text.partition(" ;")[0]
    is_path = scheme is not None or plain.startswith((".", "~")) or "/" in plain or "\\" in plain
    return _PATH if is_path else _INVALID


def _is_archive(text: str) -> bool:
    """Whether it is the name of an archive, with extras or a marker behind it perhaps."""
    return _SCHEME.search(text) is None and text.partition(";")[0].partition("[")[0].strip().lower().endswith(_ARCHIVES)


class _WrongOptionError(Exception):
    """The text names the option and not its value."""


class _OptionParser(optparse.OptionParser):
    def error(self, msg: str) -> NoReturn:
        raise _WrongOptionError(msg)


_FLAGS = ("--no-index", "--pre", "--prefer-binary", "--require-hashes", "--no-require-hashes")
_LISTS: tuple[tuple[str, ...], ...] = (
    ("--extra-index-url",),
    ("--requirement", "-r"),
    ("--constraint", "-c"),
    ("--editable", "-e"),
    ("--find-links", "-f"),
    ("--trusted-host",),
    ("--hash",),
    ("--only-binary",),
    ("--no-binary",),
    ("--all-releases",),
    ("--only-final",),
    ("--use-feature",),
    ("--config-settings", "--config-setting", "-C"),
)


def _option_parser() -> optparse.OptionParser:
    """For what pip takes in a requirements file; by optparse, as there, so that ``--req`` and ``-rfile`` are read."""
    parser = _OptionParser(add_help_option=False)
    parser.add_option("--index-url", "--pypi-url", "-i")
    for flag in _FLAGS:
        parser.add_option(flag, action="store_true")
    for names in _LISTS:
        parser.add_option(*names, action="append")
    return parser


_OPTIONS = _option_parser()


def _nothing_said() -> optparse.Values:
    """Defaults of one line: optparse appends to the lists that it is given."""
    lists = {names[0][2:].replace("-", "_"): list[str]() for names in _LISTS}
    return optparse.Values({"index_url": None, **{flag[2:].replace("-", "_"): False for flag in _FLAGS}, **lists})


@dataclass
class _Reader:
    """One request's files, read in the order in which they include each other."""

    env: Mapping[str, str]
    fetch: Fetch | None
    requirements: list[PipRequirement] = field(default_factory=list)
    constraints: list[PipRequirement] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    left: list[LeftToPip] = field(default_factory=list)
    indexes: PipIndexes = field(default_factory=PipIndexes)
    require_hashes: bool = False
    _open: list[str] = field(default_factory=list)
    """The files that are being read, each included by the one before."""

    def found(self) -> PipFile:
        return PipFile(
            requirements=tuple(self.requirements),
            constraints=tuple(self.constraints),
            indexes=self.indexes,
            require_hashes=self.require_hashes,
            passed_over=tuple(self.passed_over),
            left=tuple(self.left),
        )

    def read(self, place: FindLinks, shown: str, *, constraint: bool) -> None:
        """A file; ``shown`` is what its user calls it."""
        key = place.reveal() if isinstance(place, RedactedUrl) else str(place)
        if key in self._open:
            raise ConfigurationError(f"{shown} includes itself", hint="remove one of the -r or -c lines")
        self._open.append(key)
        text = _decoded(self._bytes(place, shown), shown)
        self.read_text(text, place if isinstance(place, RedactedUrl) else place.parent, shown, constraint=constraint)
        self._open.pop()

    def _bytes(self, place: FindLinks, shown: str) -> bytes:
        if isinstance(place, RedactedUrl):
            if self.fetch is None:
                raise ConfigurationError(
                    f"{shown} is not a local file", hint="fetch it first (resume-dl get), and name the file"
                )
            return self.fetch(place)
        try:
            return place.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"cannot read {shown}: {error.strerror or error}", hint="check its name and its permissions"
            ) from error

    def read_text(self, text: str, base: FindLinks, shown: str, *, constraint: bool) -> None:
        """The lines of one file; ``base`` is where relative names in it start."""
        for number, line in _lines(text):
            where = f"{shown}, line {number}"
            expanded = _VARIABLE.sub(lambda found: self.env.get(found[1]) or found[0], line)
            words = expanded.split(" ")
            options = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
            requirement = " ".join(words[:options]).strip()
            said, rest = _options(" ".join(words[options:]), where)
            if rest:
                self.passed_over.append(f"{where}: {scrub(line)} (pip ignores the text after the options)")
            if requirement:
                if self._take(requirement, said, line, where, constraint=constraint):
                    self._leave(expanded, requirement, line, constraint=constraint)
            elif said.editable:
                self._leave(expanded, said.editable[0], line, constraint=constraint)
                self.passed_over.append(f"{where}: {scrub(line)} (editable; {_NOT_FETCHED})")
            else:
                self._obey(said, base, where)

    def _leave(self, expanded: str, place: str, line: str, *, constraint: bool) -> None:
        self.left.append(LeftToPip(line=expanded, place=place, shown=scrub(line), constraint=constraint))

    def _take(self, text: str, said: Any, line: str, where: str, *, constraint: bool) -> bool:
        """Keep the requirement; True if only pip itself can handle it."""
        found = _parse(text)
        if isinstance(found, _Other):
            if not found.valid:
                quoted = scrub(line)
                raise InvalidSpecError(f"{where}: {quoted!r} is {found.what}", part=quoted, hint=found.hint)
            self.passed_over.append(f"{where}: {scrub(line)} ({found.what}; {found.hint})")
            return True
        hashes = tuple(one.lower() for one in said.hash)
        for one in hashes:
            if not _HASH.fullmatch(one):
                raise ConfigurationError(
                    f"{where}: a --hash is not of the form sha256:<64 hex digits>", hint="pip hash FILE prints it"
                )
        taken = changed(found, hashes=found.hashes + hashes, where=where)
        (self.constraints if constraint else self.requirements).append(taken)
        return False

    def _obey(self, said: Any, base: FindLinks, where: str) -> None:
        for names, constraint in ((said.requirement, False), (said.constraint, True)):
            for name in names:
                self.read(_included(name, base), scrub(name), constraint=constraint)
        here = base if isinstance(base, Path) else Path.cwd()
        try:
            found = PipIndexes(
                index_url=index_from(said.index_url, Path.cwd()) if said.index_url else None,
                extra=tuple(index_from(url, Path.cwd()) for url in said.extra_index_url),
                find_links=tuple(_links(word, here) for word in said.find_links),
                no_index=said.no_index,
                trusted_hosts=tuple(said.trusted_host),
                pre=said.pre or ":all:" in said.all_releases,
            )
        except ValueError:
            raise ConfigurationError(
                f"{where}: an invalid URL, or a file: URL without a file",
                hint="write it as https://host/simple, or file:///…",
            ) from None
        self.indexes = PipFile(indexes=found).indexes_over(self.indexes)
        self.require_hashes = (self.require_hashes or said.require_hashes) and not said.no_require_hashes
        for option, names in (("--no-binary", said.no_binary), ("--only-final", said.only_final)):
            self.passed_over += [f"{where}: {option} {name} (not heeded)" for name in names]
        self.passed_over += [f"{where}: --all-releases {n} (ignored)" for n in said.all_releases if n != ":all:"]


def _included(name: str, base: FindLinks) -> FindLinks:
    if isinstance(base, RedactedUrl):
        return RedactedUrl(urljoin(base.reveal(), name))
    try:
        found = place_from(name, base)
    except ValueError:
        found = base / name
    return found if isinstance(found, RedactedUrl) else found.resolve()


def _links(word: str, folder: Path) -> FindLinks:
    """As in pip: relative to the file if it exists there, else to the current folder."""
    beside = place_from(word, folder)
    return beside if isinstance(beside, RedactedUrl) or beside.exists() else place_from(word, Path.cwd())


def _options(text: str, where: str) -> tuple[Any, list[str]]:
    """The options, and what else is there."""
    try:
        return _OPTIONS.parse_args(shlex.split(text), _nothing_said())
    except _WrongOptionError as error:
        raise ConfigurationError(
            f"{where}: {error}", hint="pip's options of a requirements file are read here"
        ) from None
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint="a quotation mark is missing") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Lines with their numbers: those that end in ``\`` joined to the next, comments and empty ones left out."""
    first, joined = 0, ""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        comment = _COMMENT.match(line) is not None
        first = first or number
        if line.endswith("\\") and not comment and number < len(lines):
            joined += line.rstrip("\\")
            continue
        # a comment line ends a joined one, and needs a blank before it to be recognised
        whole = _COMMENT.sub("", joined + (" " + line if comment else line.rstrip("\\"))).strip()
        if whole:
            yield first, whole
        first, joined = 0, ""


def _decoded(data: bytes, shown: str) -> str:
    """By its byte order mark, a PEP 263 line, UTF-8, or else the system's encoding; as pip does."""
    for bom, encoding in _BOMS:  # noqa: B007 - used below
        if data.startswith(bom):
            data = data[len(bom) :]
            break
    else:
        said = next((found for line in data.splitlines()[:2] if (found := _CODING.match(line))), None)
        encoding = said[1].decode("ascii") if said else "utf-8"
        if not said and not _is_utf8(data):
            encoding = locale.getpreferredencoding(False)
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise ConfigurationError(f"{shown} is not text in {encoding}", hint="save it as UTF-8") from error


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_project(path: Path) -> PipFile:
    """``[project] dependencies`` of a pyproject.toml (PEP 621)."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}", hint="correct the line named") from error
    project = document.get("project")
    if not isinstance(project, dict):
        raise ConfigurationError(
            f"{path} has no [project] table", hint="pyproject.toml, pylock.toml and requirements.txt can be read"
        )
    if "dependencies" in project.get("dynamic", ()):
        raise ConfigurationError(f"{path} declares its dependencies as dynamic", hint="list them in a requirements.txt")
    listed = project.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ConfigurationError(
            f"{path}: project.dependencies is not a list of strings", hint="PEP 621 describes the format"
        )
    return PipFile(requirements=tuple(parse_requirement(text, f"{path}, project.dependencies") for text in listed))


def build_requirements(folder: Path) -> tuple[str, ...]:
    """The build requirements of the project in ``folder``, from its pyproject.toml (PEP 518, PEP 517).

    An unreadable file counts as missing; pip will report it.
    """
    try:
        document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        document = {}
    table = document.get("build-system")
    listed = table.get("requires") if isinstance(table, dict) else None
    if not isinstance(listed, list):
        return _BUILT_BY_DEFAULT
    wanted: list[str] = []
    for text in listed:
        found = _parse(text) if isinstance(text, str) else None
        if isinstance(found, PipRequirement):
            wanted += [text, *_ASKED_WHILE_BUILDING.get(found.name.lower(), ())]
    return tuple(dict.fromkeys(wanted))
