"""requirements.txt, pyproject.toml and the name of a pylock.toml: what they ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError, InvalidSpecError, ResumeDLError
from resume_dl.fs import system
from resume_dl.model.pip import PipFile, PipIndexes, PipRequirement
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.pyproject_file import build_requirements
from resume_dl.resolve.requirement_line import parse_requirement
from resume_dl.resolve.requirements import read_requirements

A, B = "a" * 64, "b" * 64
WHEEL = "torch-1.6.0%2Bcu101-cp38-cp38-linux_x86_64.whl"
PIP_READS = """
import json, sys
from pip._internal.index.collector import LinkCollector
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.search_scope import SearchScope
from pip._internal.models.selection_prefs import SelectionPreferences
from pip._internal.network.session import PipSession
from pip._internal.req.req_file import parse_requirements
session = PipSession()
scope = SearchScope.create([], ["https://default.example/s"], False)
finder = PackageFinder.create(LinkCollector(session, scope), SelectionPreferences(allow_yanked=False))
rows = [
    (row.requirement, row.constraint, row.is_editable, sum(((row.options or {}).get("hashes") or {}).values(), []))
    for row in parse_requirements(sys.argv[1], session, finder)
]
scope = finder.search_scope
hosts = [list(one) for one in session.pip_trusted_origins]
print(json.dumps([rows, scope.index_urls, scope.find_links, scope.no_index, hosts]))
"""


def write(folder: Path, text: str, name: str = "requirements.txt") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def read(folder: Path, text: str, **env: str) -> PipFile:
    return read_requirements(write(folder, text), env=env)


def lines(found: tuple[PipRequirement, ...]) -> list[str]:
    return [str(one) for one in found]


# --------------------------------------------------------------------------- as pip itself


FILES = {
    "plain": {"requirements.txt": "numpy\nTorch==1.6.0+cu101 # gpu\n\n# all\n  tqdm>=4,<5  \n"},
    "markers and extras": {"requirements.txt": "a[x,y]>=1; sys_platform == 'win32'\nb ; python_version<'3.8'\n"},
    "hashes over lines": {
        "requirements.txt": f"torch==1.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\nb==1 --hash sha256:{A}\n"
    },
    "comments between joined lines": {"requirements.txt": f"a==1 \\\n# no\nb==2\nc==3 \\\n --hash=sha256:{A}\nd \\"},
    "nested": {
        "requirements.txt": "-r more/base.txt\n-c limits.txt\na\n",
        "more/base.txt": "b\n--constraint=../limits2.txt\n-r deep.txt",
        "more/deep.txt": "c",
        "limits.txt": "a<2\n",
        "limits2.txt": "b<3\n",
    },
    "indexes": {
        "requirements.txt": "-i https://i.example/s\n--extra-index-url https://x.example/s\n"
        "--extra-index-url=https://y.example/s\n--trusted-host i.example:8443\n"
    },
    "an index takes the place of all before it": {
        "requirements.txt": "--extra-index-url https://x.example/s\n--index-url https://i.example/s\na"
    },
    "two indexes": {"requirements.txt": "--index-url https://i.example/s\n--pypi-url https://j.example/s\na"},
    "on one line": {"requirements.txt": "--index-url https://i.example/s --extra-index-url https://x.example/s"},
    "no index": {"requirements.txt": "--no-index\n--find-links https://l.example/\n"},
    "abbreviated": {
        "requirements.txt": "-rbase.txt\n--requirem base2.txt\n--extra https://x.example/s",
        "base.txt": "b",
        "base2.txt": "c",
    },
    "find-links beside the file": {"requirements.txt": "-f wheels\n-f https://l.example/t.html", "wheels/x": ""},
    "editable": {"requirements.txt": "-e ./here\na\n--editable git+https://h.example/r.git#egg=r\n"},
    "variables": {
        "requirements.txt": "-i https://${WHO}:${_PASS1}@h.example/s\na==${VERSION}\nb==${lower}${MISSING}\n"
    },
    "a file included twice": {
        "requirements.txt": "-r one.txt\n-r two.txt",
        "one.txt": "-r x.txt",
        "two.txt": "-r x.txt",
        "x.txt": "a",
    },
}


@pytest.mark.parametrize("scene", FILES)
def test_the_real_pip_reads_the_same(tmp_path: Path, scene: str) -> None:
    """Requirements, constraints, hashes, indexes and pages, in pip's own order."""
    pytest.importorskip("pip")
    for name, text in FILES[scene].items():
        write(tmp_path, text, name)
    path = tmp_path / "requirements.txt"
    env = {**os.environ, "WHO": "me", "_PASS1": "hush", "VERSION": "1.0", "MISSING": "", "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(
        [sys.executable, "-c", PIP_READS, path], env=env, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    rows, index_urls, find_links, no_index, hosts = json.loads(done.stdout)

    if scene == "variables":
        rows = [row for row in rows if not row[0].startswith("b==")]  # which is no requirement by PEP 508
        path.write_text(path.read_text(encoding="utf-8").replace("b==${lower}${MISSING}\n", ""), encoding="utf-8")
    found = read_requirements(path, env=env)
    for constraint, ours in ((False, found.requirements), (True, found.constraints)):
        theirs = [(row[0], row[3]) for row in rows if row[1] is constraint and not row[2]]
        want = [(str(parse_requirement(text)), hashes) for text, hashes in theirs]
        assert [(str(one), [one_hash.partition(":")[2] for one_hash in one.hashes]) for one in ours] == want
    assert len(found.passed_over) == sum(row[2] for row in rows)
    indexes = found.indexes_over(PipIndexes(index_url=RedactedUrl("https://default.example/s")))
    urls = [] if indexes.no_index else [url.reveal() for url in (indexes.index_url, *indexes.extra) if url]
    assert (urls, indexes.no_index) == (index_urls, no_index)
    assert [str(link) for link in indexes.find_links] == find_links
    assert [
        [host, int(port) if port else None] for host, _, port in (h.partition(":") for h in indexes.trusted_hosts)
    ] == hosts


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "coding: latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """By byte order mark or PEP 263 line."""
    named = encoding.removeprefix("coding: ")
    head = f"# -*- {encoding} -*-\n" if named != encoding else ""
    (tmp_path / "r.txt").write_bytes(f"{head}torch  # für alle\n".encode(named))
    assert lines(read_requirements(tmp_path / "r.txt", env={}).requirements) == ["torch"]


def test_text_in_no_encoding_is_an_error(tmp_path: Path) -> None:
    """Exit code 2, with the file's name."""
    (tmp_path / "r.txt").write_bytes(b"# coding: utf-8\ntorch \xff\n")
    with pytest.raises(ConfigurationError, match=r"r\.txt is not text in utf-8"):
        read_requirements(tmp_path / "r.txt", env={})


# --------------------------------------------------------------------------- one requirement


def test_a_requirement_has_its_parts() -> None:
    """Name, extras, version, marker; and a line that says them again."""
    found = parse_requirement("Torch[b,a] >=1.6, ==1.6.0+cu101 ; python_version < '3.9'", "here")
    assert found == PipRequirement(
        name="Torch",
        extras=("a", "b"),
        specifier="==1.6.0+cu101,>=1.6",
        marker='python_version < "3.9"',
        where="here",
    )
    assert found.line() == 'Torch[a,b]==1.6.0+cu101,>=1.6; python_version < "3.9"'


@pytest.mark.parametrize(
    "text",
    [
        f"torch @ https://me:hush@h.example/w/{WHEEL}#sha256={A} ; os_name == 'nt'",
        f"https://me:hush@h.example/w/{WHEEL}#sha256={A} ; os_name == 'nt'",
    ],
)
def test_the_address_of_a_wheel(text: str) -> None:
    """With or without its name; the digest is taken, the password is not shown, another address can be put in."""
    found = parse_requirement(text)
    bare = f"https://me:hush@h.example/w/{WHEEL}"
    assert (found.name, found.url, found.hashes) == ("torch", RedactedUrl(bare), (f"sha256:{A}",))
    assert "hush" not in repr(found) + str(found)
    assert found.line("http://127.0.0.1:1/x.whl") == 'torch @ http://127.0.0.1:1/x.whl ; os_name == "nt"'
    assert parse_requirement(found.line(bare)).url == found.url


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch=1.6", "not a valid requirement"),
        ("torch==", "not a valid requirement"),
        ("", "not a valid requirement"),
        ("./here", "a path on this machine"),
        ("torch-1.6.0-cp38-cp38-linux_x86_64.whl", "a path on this machine"),
        ("C:\\wheels\\x.whl", "a path on this machine"),
        ("x @ file:///w/x.whl", "a path on this machine"),
        ("x @ ../x", "a path on this machine"),
        ("git+https://me:hush@h.example/r.git@v1", "from version control"),
        ("r @ git+ssh://git@h.example/r.git", "from version control"),
        ("https://me:hush@h.example/archive/main.zip", "without a package name"),
        ("x @ https://me:hush@[bad/x-1.0-py3-none-any.whl", "invalid URL"),
        ("https://me:hush@[bad/x-1.0-py3-none-any.whl", "invalid URL"),
    ],
)
def test_what_cannot_be_fetched_is_refused_on_the_command_line(text: str, said: str) -> None:
    """Exit code 2; what it is, and no password."""
    with pytest.raises(InvalidSpecError, match=said) as caught:
        parse_requirement(text)
    assert "hush" not in caught.value.message + caught.value.part + repr(caught.value)
    assert caught.value.__cause__ is None


# --------------------------------------------------------------------------- what is reported


def test_requirements_outside_an_index_are_reported(tmp_path: Path) -> None:
    """Editable, from version control, local: each with its place; the rest is read."""
    found = read(
        tmp_path,
        "-e .\ngit+https://me:hush@h.example/r.git\n./local\nx-1.0-py3-none-any.whl\ntorch\n--no-binary numpy\n"
        "r @ git+https://${TOKEN}@h.example/r.git\nb==1 --hash=sha256:" + A + " c\n",
        TOKEN="hush",
    )
    assert lines(found.requirements) == ["torch", "b==1"]
    assert len(found.passed_over) == 7
    told = "\n".join(found.passed_over)
    for number, words in (
        (1, "-e . (editable"),
        (2, "version control"),
        (3, "./local (a path"),
        (4, "x-1.0"),
        (6, "numpy"),
    ):
        assert f"requirements.txt, line {number}: " in told
        assert words in told
    assert "hush" not in told + repr(found)
    assert [each.line for each in found.left] == [
        "-e .",
        "git+https://me:hush@h.example/r.git",
        "./local",
        "x-1.0-py3-none-any.whl",
        "r @ git+https://hush@h.example/r.git",
    ]
    assert [each.place for each in found.left][:2] == [".", "git+https://me:hush@h.example/r.git"]


@pytest.mark.parametrize(
    "line", ["dep @ https://me:hush@h.example/dep-1-py3-none-any.whl extra words", "dep[a] @ ./x y"]
)
def test_text_after_a_url_is_an_error(tmp_path: Path, line: str) -> None:
    """And no path on this machine: pip refuses such a line."""
    with pytest.raises(InvalidSpecError, match=r"requirements\.txt, line 2: .* is not a valid requirement") as caught:
        read(tmp_path, f"a\n{line}\n")
    assert "hush" not in caught.value.message + caught.value.part


def test_a_wrong_line_is_named_with_file_and_line_and_without_its_password(tmp_path: Path) -> None:
    """Also where the password comes from the environment: the file's own words are quoted."""
    write(tmp_path, "a\n\nb = 1 ; https://me:hush@h.example ${SECRET}\n", "base.txt")
    with pytest.raises(InvalidSpecError, match=r"base\.txt, line 3: 'b = 1") as caught:
        read(tmp_path, "-r base.txt", SECRET="hush")
    assert "${SECRET}" in caught.value.message
    assert "hush" not in caught.value.message + caught.value.part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--index-ur1 https://me:hush@h.example/s", "line 1: no such option: --index-ur1"),
        ("\n--index-url", "line 2: .*requires 1 argument"),
        ("torch --hash=sha256:hush", "line 1: a --hash is not"),
        ("torch --hash='sha256:hush", "line 1: No closing quotation"),
        ("-r none.txt", "cannot read none.txt"),
        ("-r requirements.txt", "includes itself"),
        ("-r ../{folder}/requirements.txt", "includes itself"),
        ("-c https://me:hush@h.example/c.txt", "not a local file"),
        ("-f file://other.example", "without a file"),
        ("\n--index-url https://me:hush@[bad/s", "line 2: an invalid URL"),
        ("--extra-index-url https://me:hush@[bad/s", "line 1: an invalid URL"),
        ("-f https://me:hush@[bad/s", "line 1: an invalid URL"),
    ],
)
def test_a_file_that_cannot_be_understood(tmp_path: Path, text: str, said: str) -> None:
    """Exit code 2, file and line, nothing secret."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(tmp_path, text.replace("{folder}", tmp_path.name))
    assert "hush" not in caught.value.message + caught.value.hint + repr(caught.value)


def test_passwords_of_indexes_are_not_printed(tmp_path: Path) -> None:
    """They are kept for the transport."""
    found = read(
        tmp_path,
        "-i https://me:hush@h.example/s\n-f https://me:hush@h.example/f\na @ https://me:hush@h.example/a-1.zip",
    )
    assert found.indexes.index_url == RedactedUrl("https://me:hush@h.example/s")
    assert "hush" not in repr(found) + str(found)


def test_find_links_that_are_not_beside_the_file_are_meant_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip does; the file lies elsewhere."""
    (tmp_path / "here" / "wheels").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    path = write(tmp_path / "there", "-f wheels", "requirements.txt")
    assert read_requirements(path, env={}).indexes.find_links == (tmp_path / "here" / "wheels",)
    (tmp_path / "there" / "wheels").mkdir()
    assert read_requirements(path, env={}).indexes.find_links == (tmp_path / "there" / "wheels",)


@pytest.mark.parametrize(
    "line", ["--find-links {}", "-f file:{}/wheels", "-f FILE://{}", "-r {}/more.txt", "-c file:{}/limits.txt"]
)
@pytest.mark.parametrize("share", ["//evil/s", "/\\\\evil/s"])
def test_a_share_that_the_user_has_not_named_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, share: str
) -> None:
    """Not even whether a file is there: Windows would send it the user's login."""
    path = write(tmp_path, f"demo\n{line.format(share)}\n")
    with monkeypatch.context() as patched:  # pytest itself asks for paths, if this fails
        patched.setattr(system, "WINDOWS", True)
        for asking in ("exists", "resolve", "read_bytes"):
            mine = getattr(Path, asking)
            patched.setattr(Path, asking, lambda self, mine=mine: _outside(tmp_path, self) or mine(self))
        with pytest.raises((ConfigurationError, AssertionError)) as caught:
            read_requirements(path, env={})
    assert "line 2: " in str(caught.value)
    assert "your settings do not name evil, and Windows would send it your login" in str(caught.value)


def _outside(folder: Path, path: Path) -> None:
    assert path.is_relative_to(folder), f"{path} was asked for"


def test_a_share_that_the_user_has_named_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And relative names, and files of this machine, need no name."""
    monkeypatch.setattr(system, "WINDOWS", True)
    monkeypatch.setattr(Path, "exists", lambda _: True)
    path = write(tmp_path, f"-f //mine/s\n-f wheels\n-f {(tmp_path / 'more').as_posix()}\n")
    found = read_requirements(path, env={}, shares=frozenset({"mine"}))
    folder = tmp_path.resolve()
    assert found.indexes.find_links == (Path("//mine/s"), folder / "wheels", tmp_path / "more")


def test_the_hash_of_one_line_is_not_the_next_ones(tmp_path: Path) -> None:
    """Options are read afresh for every line."""
    found = read(tmp_path, f"a==1 --hash=sha256:{A}\nb==1\nc==1 --hash=SHA256:{B.upper()}\n--require-hashes")
    assert [one.hashes for one in found.requirements] == [(f"sha256:{A}",), (), (f"sha256:{B}",)]
    assert found.require_hashes


def test_included_urls_are_read_by_the_given_function(tmp_path: Path) -> None:
    """Constraints are often at an address; what they include is relative to it."""
    asked = []

    def fetch(url: RedactedUrl) -> bytes:
        asked.append(url.reveal())
        return b"b<2\n-r more/d.txt" if url.reveal().endswith("c.txt") else b"d"

    path = write(tmp_path, "-c https://h.example/x/c.txt\nb")
    found = read_requirements(path, env={}, fetch=fetch)
    assert asked == ["https://h.example/x/c.txt", "https://h.example/x/more/d.txt"]
    assert (lines(found.requirements), lines(found.constraints)) == (["d", "b"], ["b<2"])


def test_the_pip_part_of_an_environment_file_is_read(tmp_path: Path) -> None:
    """Lines as in a requirements file, paths from the folder of the environment.yml."""
    write(tmp_path, "b", "base.txt")
    path = write(
        tmp_path,
        "dependencies: [python, pip, {pip: ['-r base.txt', '-f https://l.example/t.html', 'torch==1.6.0+cu101']}]",
        "environment.yml",
    )
    found = read_requirements(path, env={})
    assert lines(found.requirements) == ["b", "torch==1.6.0+cu101"]
    assert found.indexes.find_links == (RedactedUrl("https://l.example/t.html"),)
    assert found.requirements[1].where == f"{path}, pip, line 3"


# --------------------------------------------------------------------------- the other files


def test_pyproject(tmp_path: Path) -> None:
    """[project] dependencies, as they stand."""
    path = write(
        tmp_path, "[project]\nname = 'x'\ndependencies = ['torch==1.6', 'a; os_name==\"nt\"']\n", "pyproject.toml"
    )
    found = read_requirements(path, env={})
    assert lines(found.requirements) == ["torch==1.6", 'a; os_name == "nt"']
    assert found.requirements[0].where == f"{path}, project.dependencies"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.x]\n", "no \\[project\\]"),
        ("[project]\ndynamic = ['dependencies']\n", "dynamic"),
        ("[project]\ndependencies = 'torch'\n", "not a list of strings"),
        ("[project]\ndependencies = ['torch=1']\n", "'torch=1' is not a valid requirement"),
        ("[project\n", "not valid TOML"),
    ],
)
def test_a_pyproject_that_says_nothing_useful(tmp_path: Path, text: str, said: str) -> None:
    """Exit code 2, and what is wrong with it."""
    with pytest.raises(ResumeDLError, match=said) as caught:
        read_requirements(write(tmp_path, text, "pyproject.toml"), env={})
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("", ("setuptools>=40.8.0", "wheel")),
        ("[project]\nname = 'x'\n", ("setuptools>=40.8.0", "wheel")),
        ("[build-system\n", ("setuptools>=40.8.0", "wheel")),
        ("[build-system]\nrequires = []\n", ()),
        ("[build-system]\nrequires = ['flit-core<4', 'x @ file:///x', 1]\n", ("flit-core<4",)),
        ("[build-system]\nrequires = ['setuptools>=61', 'wheel']\n", ("setuptools>=61", "wheel")),
        ("[build-system]\nrequires = ['hatchling']\n", ("hatchling", "editables")),
    ],
)
def test_build_requirements_of_a_project(tmp_path: Path, text: str, tools: tuple[str, ...]) -> None:
    """PEP 518, with what some backends ask for later."""
    if text:
        write(tmp_path, text, "pyproject.toml")
    assert build_requirements(tmp_path) == tools


@pytest.mark.parametrize(("name", "lock"), [("pylock.toml", True), ("pylock.dev.toml", True), ("mypylock.toml", False)])
def test_a_lock_file_is_known_by_its_name(tmp_path: Path, name: str, lock: bool) -> None:
    """PEP 751: pylock.toml or pylock.<name>.toml."""
    path = write(tmp_path, "[project]\nname='x'\n", name)
    assert read_requirements(path, env={}).lock == (path if lock else None)
