"""Texts that people and their programs write are read in whatever encoding a Windows machine gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from resume_dl import text_encoding
from resume_dl.errors import ConfigurationError
from resume_dl.resolution.conda_and_pip import is_pip_file
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.requirements import read_requirements
from resume_dl.settings import conda_find, condarc, pip_settings
from resume_dl.text_encoding import decode_text, system_encoding

TEXT = "name: 环境  # für alle\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_or_utf_8_decides(encoding):
    assert decode_text(TEXT.encode(encoding), system="cp936") == TEXT
    assert decode_text("\ufeffa".encode("utf-16-be"), system="cp936") == "a"


@pytest.mark.parametrize(
    ("text", "system"), [("环境", "cp936"), ("für", "cp1252"), ("環境", "cp932"), ("für", "cp850")]
)
def test_else_the_code_page_of_the_system(text, system):
    assert decode_text(text.encode(system), system=system) == text


def test_what_fits_none_names_them_all():
    for data, system, named in (
        (b"\xff", "cp936", "UTF-8 or cp936"),
        (b"\x81", "cp1252", "UTF-8 or cp1252"),
        (b"\xff", "UTF-8", "UTF-8"),
        (b"\xff\xfea", "cp936", "utf-16-le"),
    ):
        with pytest.raises(UnicodeDecodeError) as raised:
            decode_text(data, system=system)
        assert raised.value.encoding == named


def test_the_system_has_an_encoding_that_python_knows():
    assert decode_text(b"a\xff"[:1], system=system_encoding()) == "a"


@pytest.fixture
def cp936(monkeypatch):
    """A machine with that code page."""
    monkeypatch.setattr(text_encoding, "system_encoding", lambda: "cp936")


def test_environment_files_and_lists(tmp_path: Path, cp936: None) -> None:
    """PowerShell 5 writes UTF-16 by ``conda env export > environment.yml``, cmd the code page."""
    text = "name: 环境\nchannels: [conda-forge]\ndependencies: [python]\n"
    for encoding in ("utf-16", "cp936", "utf-8-sig"):
        (tmp_path / "environment.yml").write_bytes(text.encode(encoding))
        assert read_environment_file(tmp_path / "environment.yml").name == "环境"
        (tmp_path / "list.txt").write_bytes("# C:\\环境\n@EXPLICIT\n".encode(encoding))
        assert not is_pip_file(tmp_path / "list.txt")
        (tmp_path / "r.txt").write_bytes("# C:\\环境\ntorch\n".encode(encoding))
        assert [each.name for each in read_requirements(tmp_path / "r.txt", env={}).requirements] == ["torch"]
    (tmp_path / "environment.yml").write_bytes(b"name: \xff\n")
    with pytest.raises(ConfigurationError, match="not text in UTF-8 or cp936"):
        read_environment_file(tmp_path / "environment.yml")


def test_condarc(tmp_path: Path, cp936: None) -> None:
    """One that cannot be read is named with the encoding, and no other file's settings are lost with it."""
    env = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    text = "channels: [https://m.example/镜像]\n"
    for encoding in ("utf-16", "cp936", "utf-8-sig", "utf-8"):
        (tmp_path / ".condarc").write_bytes(text.encode(encoding))
        found = condarc.read_settings(env)
        assert (found.channels, found.problem) == (("https://m.example/镜像",), "")
    (tmp_path / ".condarc").write_bytes(b"channels: [a\xff]\n")
    assert "not text in UTF-8 or cp936" in condarc.read_settings(env).problem


def test_pips_settings(tmp_path: Path, cp936: None) -> None:
    place = tmp_path / pip_settings.BASENAME
    for encoding in ("utf-16", "cp936", "utf-8-sig", "utf-8"):
        place.write_bytes("[global]\ncert = C:\\环境\\ca.pem\n".encode(encoding))
        assert pip_settings.parse_file(place).get("global", "cert") == "C:\\环境\\ca.pem"
    place.write_bytes(b"[global]\ncert = \xff\n")
    with pytest.raises(ConfigurationError, match="not text in UTF-8 or cp936"):
        pip_settings.parse_file(place)


def test_environments_that_conda_has_noted(tmp_path: Path, cp936: None) -> None:
    """conda writes them in the code page of the system."""
    (tmp_path / "environments.txt").write_bytes("D:\\环境\n".encode("cp936"))
    assert conda_find._known_environments(tmp_path / "environments.txt") == [Path("D:\\环境")]
