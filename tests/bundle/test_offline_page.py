"""docs/offline.md against what is made and said: files, fields, messages, and the blocks for nginx and mirrors.toml.

That its commands and options exist is the business of ``tests/cli/test_docs.py``.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from resume_dl.bundle.parts import split_file
from resume_dl.model.bundle import MANIFEST, SIGNATURE, SUMS, BundleFile, BundlePackage, BundlePlatform
from resume_dl.offline_tools.machine.inventory import inventory
from resume_dl.offline_tools.machine.profile import look
from resume_dl.offline_tools.parts import parts_list
from resume_dl.offline_tools.verification import manifest_check
from resume_dl.settings.mirrors import load_mirrors
from support.bundles import BOTH, files_of, manifest
from support.installable import Target

PAGE = Path(__file__).resolve().parents[2] / "docs" / "offline.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = {"SUMS": SUMS, "MANIFEST": MANIFEST}
"""Constants that messages are put together with."""


def section(number: int) -> str:
    """The text below ``## <number>. …``."""
    found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, number
    return found[0]


def block(language: str, text: str = TEXT) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, language
    return found[1]


def spans(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)))


@pytest.mark.nginx
def test_the_folder_has_these_files(maker):
    """Each file of a bundle stands in the table of step 8, and the table names no other."""
    done = maker.create("pytorch", *BOTH, "--pip", "demo-app")
    assert done.code == 0, done.err
    rows = [line.split("|")[1] for line in section(8).splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in spans(row)}
    whole = re.compile("|".join(map(pattern, named)))
    found = files_of(maker.out)
    assert {path for path in found if not whole.fullmatch(path)} == set()
    unused = {name for name in named if not any(re.fullmatch(pattern(name), path) for path in found)}
    assert unused == {SIGNATURE}
    kept = manifest(maker.out)
    assert list(shown()) == list(kept)
    assert {*shown()["platforms"]["linux-64"]} == {*kept["platforms"]["linux-64"]}
    assert {*shown()["request"]} == {*kept["request"]}


def pattern(name: str) -> str:
    """A row's name as a pattern of paths."""
    text = re.escape(name).replace("<subdir>", "[^/]+").replace("<platform>", "[^/]+")
    return f"{text}.+" if name.endswith("/") else text


def shown() -> dict[str, dict[str, dict[str, object]]]:
    """The manifest of step 8."""
    document: dict[str, dict[str, dict[str, object]]] = json.loads(block("json", section(8)))
    return document


def test_the_manifest_has_these_fields():
    """In their order: the page's example is what the models write."""
    document = json.loads(block("json", section(8)))
    assert list(document["packages"][0]) == list(BundlePackage.__slots__)
    assert list(document["files"][0]) == list(BundleFile.__slots__)
    always = BundlePlatform(platform="linux-64").as_json()
    assert list(document["platforms"]["linux-64"]) == list(always)
    assert {*BundlePlatform.__slots__} - {*always} - {"platform"} <= spans(section(8))
    assert (document["schema"], document["kind"]) == (manifest_check.SCHEMA, manifest_check.KIND)


@pytest.mark.conda
def test_the_other_files_have_these_fields(tmp_path, test_conda):
    """target.json of a machine with a conda, an inventory of a cache, the list of parts."""
    text = section(8)
    words = spans(text)
    profile = look(Target(test_conda).environment(), log=lambda _: None)
    names = {name for name in profile.answer if name not in ("schema", "kind")}
    assert names <= words, names - words
    assert {*profile.answer["conda"]} <= words
    assert {*inventory([], [], lambda _: None)} <= words
    (tmp_path / "X.tar").write_bytes(b"12345")
    split_file(tmp_path / "X.tar", tmp_path, size=3)
    listed = json.loads((tmp_path / f"X.tar{parts_list.LIST}").read_bytes())
    line = next(
        each for each in text.replace("\n", " ").split("**") if each.startswith(" is ") and parts_list.KIND in each
    )
    assert {*re.findall(r'"(\w+)"', line)} - {"schema"} >= {*listed, *listed["parts"][0]} - {"schema"}


def literals(module: Path) -> set[str]:
    """Every text that a module can say, with … for what is put in."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.add("".join(map(_piece, node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.replace("{}", "…"))
    return {re.sub(r"…( …)+", "…", text) for text in found}


def _piece(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    inner = node.value if isinstance(node, ast.FormattedValue) else node
    return NAMES.get(inner.id, "…") if isinstance(inner, ast.Name) else "…"


def test_the_messages_are_said():
    """Each message in the table of step 4 is one of the offline tools', word by word."""
    rows = [line for line in section(4).splitlines() if re.match(r"\| \d \|", line)]
    messages = [text for row in rows for text in re.findall(r"\*([^*]+)\*", row.split("|")[2])]
    assert len(messages) > 20
    tools = Path(str(manifest_check.__file__)).parents[1]
    said = {text for module in tools.rglob("*.py") for text in literals(module)}
    assert [text for text in messages if not any(text.strip("…, ") in each for each in said)] == []


def test_the_exit_codes_are_documented_ones():
    """Those of the table are the ones that the scripts end with."""
    codes = {int(code) for code in re.findall(r"^\| (\d) \|", section(4), re.MULTILINE)}
    assert codes == {0, 1, 2, 4, 5}


def test_the_mirrors_of_a_lab_can_be_read(tmp_path):
    """The block for mirrors.toml is one, and serves what it says."""
    (tmp_path / "mirrors.toml").write_text(block("toml", section(6)), encoding="utf-8")
    table = load_mirrors(override=tmp_path / "mirrors.toml")
    assert [mirror.name for mirror in table.mirrors] == ["lab"]
    assert {*table.mirrors[0].carries} == {"conda:pytorch", "conda:pkgs/main", "pypi:simple"}
