"""Whether a wheel is what its RECORD says, and an sdist whole."""

from __future__ import annotations

import base64
import gzip
import hashlib
import shutil
import zipfile

import pytest

from resume_dl.caches import wheel_record
from resume_dl.caches.wheel_record import check_archive
from resume_dl.errors import IntegrityError, Interrupted
from support.pip_index import build_sdist, build_wheel


def rebuilt(path, change):
    """The wheel at ``path`` with its members changed: ``change(name, data)`` gives the data; None leaves it out."""
    other = path.with_name("rebuilt.whl")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for member in old.infolist():
            data = change(member.filename, old.read(member))
            if data is not None:
                new.writestr(member.filename, data)
    return shutil.move(other, path)


@pytest.fixture
def wheel(tmp_path):
    return build_wheel(tmp_path, "app", "1.0", files={'app/a, "b".txt': b"x", "app/empty": b""}, filler=3_000_000).path


def test_a_valid_wheel_passes(wheel):
    """Names with commas and quotes, empty members and large ones."""
    check_archive(wheel, "app.whl")


def test_hashes_as_hex(wheel):
    """gmsh's wheels have them so."""

    def change(name, data):
        rows = [row.split(b",") for row in data.splitlines()] if name.endswith("RECORD") else []
        for row in rows:
            kind, _, value = row[-2].partition(b"=")
            row[-2] = b"sha256=" + base64.urlsafe_b64decode(value + b"=").hex().encode() if kind else b""
        return b"\n".join(b",".join(row) for row in rows) or data

    rebuilt(wheel, change)
    check_archive(wheel, "app.whl")


@pytest.mark.parametrize("suffix", ["jws", "p7s"])
def test_signatures_have_no_hash(wheel, suffix):
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(f"app-1.0.dist-info/RECORD.{suffix}", b"signed")
    check_archive(wheel, "app.whl")


def test_a_member_that_differs(wheel):
    """Both hashes are named."""
    rebuilt(wheel, lambda name, data: b"other" if name == "app/__init__.py" else data)
    with pytest.raises(IntegrityError, match=r"RECORD gives sha256=\S+ for app/__init__.py, which has sha256=\S+"):
        check_archive(wheel, "app.whl")


def test_a_member_that_is_not_listed(wheel):
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("evil.pth", b"import os")
    with pytest.raises(IntegrityError, match=r"gives no hash for evil\.pth"):
        check_archive(wheel, "app.whl")


def test_a_member_that_is_listed_without_a_hash(wheel):
    rebuilt(wheel, lambda name, data: data + b"app/empty,,\n" if name.endswith("RECORD") else data)
    with pytest.raises(IntegrityError, match="gives no hash for app/empty"):
        check_archive(wheel, "app.whl")


def test_a_weak_hash_counts_as_missing(wheel):
    rebuilt(wheel, lambda name, data: data.replace(b"sha256=", b"md5=") if name.endswith("RECORD") else data)
    with pytest.raises(IntegrityError, match="gives no hash for"):
        check_archive(wheel, "app.whl")


def test_a_member_that_is_missing(wheel):
    rebuilt(wheel, lambda name, data: None if name == "app/empty" else data)
    with pytest.raises(IntegrityError, match="lists app/empty, which is not in it"):
        check_archive(wheel, "app.whl")


def test_no_record(wheel):
    rebuilt(wheel, lambda name, data: None if name.endswith("RECORD") else data)
    with pytest.raises(IntegrityError, match="no RECORD"):
        check_archive(wheel, "app.whl")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(wheel):
    """Programs differ in which of them they take."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("app/__init__.py", b"other")
    with pytest.raises(IntegrityError, match="two members"):
        check_archive(wheel, "app.whl")


@pytest.mark.parametrize("where", [0.5, 0.9999])
def test_a_damaged_byte(wheel, where):
    data = bytearray(wheel.read_bytes())
    data[int(len(data) * where)] ^= 1
    wheel.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"app\.whl cannot be trusted"):
        check_archive(wheel, "app.whl")


def test_files_that_are_not_wheels_are_rejected(tmp_path):
    (tmp_path / "page").write_text("<html>sign in</html>")
    for name in ("app.whl", "app.tar.gz", "app.exe"):
        with pytest.raises(IntegrityError):
            check_archive(tmp_path / "page", name)


def test_an_sdist_is_checked_by_its_checksum(tmp_path):
    path = build_sdist(tmp_path, "app", "1.0").path
    check_archive(path, path.name)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IntegrityError, match="incomplete or not an archive"):
        check_archive(path, path.name)


def test_the_check_can_be_cancelled(wheel):
    with pytest.raises(Interrupted):
        check_archive(wheel, "app.whl", cancelled=lambda: True)


def packed(path, members, *, record=None):
    """A wheel of these members with a right RECORD, or with ``record`` as its rows."""
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in members.items()
    ]
    rows = [*rows, "app-1.dist-info/RECORD,,"] if record is None else record(rows)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*members.items(), ("app-1.dist-info/RECORD", "\n".join(rows))]:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


MEMBERS = {"app/a.py": b"a = 1\n", "app/zeros": bytes(3 << 20)}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (None, None),
        (lambda rows: rows, None),  # it need not list itself
        (lambda rows: [rows[0], "", rows[1]], None),  # nor be without blank lines
        (lambda rows: [rows[0].replace(",6", ""), rows[1]], None),  # nor give sizes
        (lambda rows: rows[:1], "gives no hash for app/zeros"),
        (lambda rows: [*rows, "app/gone,sha256=x,1"], "lists app/gone, which is not in it"),
        (lambda rows: ["app/a.py", rows[1]], "gives no hash for app/a.py"),
        (lambda rows: ["app/a.py,md5=x", rows[1]], "gives no hash for app/a.py"),
        (lambda rows: ["app/a.py,sha256=x", rows[1]], "gives sha256=x for app/a.py, which has sha256="),
        (lambda rows: [rows[0].replace(",6", "==,6"), rows[1]], None),  # padded, as some are
        (lambda rows: ['"app/a.py', rows[1]], "incomplete or not an archive"),
    ],
)
def test_rows_of_a_record(tmp_path, record, said):
    """What has to be in it, what may be left out, and what it says of what is wrong."""
    path = packed(tmp_path / "app.whl", MEMBERS, record=record)
    if said is None:
        check_archive(path, "app.whl")
        return
    with pytest.raises(IntegrityError, match=said) as caught:
        check_archive(path, "app.whl")
    assert str(caught.value).startswith("app.whl cannot be trusted: ")
    assert "--hash=sha256:" in caught.value.hint


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_stronger_hashes_are_accepted(tmp_path, algorithm):
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, b"x").digest()).rstrip(b"=").decode()
    check_archive(packed(tmp_path / "a.whl", {"x": b"x"}, record=lambda rows: [f"x,{algorithm}={digest},1"]), "a.whl")


def test_only_one_record_counts(tmp_path):
    """Two are one too many; one below another folder is none."""
    with pytest.raises(IntegrityError, match="more than one RECORD"):
        check_archive(packed(tmp_path / "a.whl", {"other.dist-info/RECORD": b""}), "a.whl")
    check_archive(packed(tmp_path / "a.whl", {"vendor/other.dist-info/RECORD": b""}), "a.whl")


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_unpacked_bytes_are_bounded(tmp_path, monkeypatch, kind):
    """Sixty-four times the archive and the spare amount, and not a byte more."""
    path = tmp_path / f"app.{kind}"
    data = bytes(3 << 20)
    if kind == "whl":
        packed(path, {"zeros": data})
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
    else:
        path.write_bytes(gzip.compress(data))
        size = len(data)
    spare = size - 64 * path.stat().st_size
    monkeypatch.setattr(wheel_record, "_WORK_MORE", spare)
    check_archive(path, path.name)
    monkeypatch.setattr(wheel_record, "_WORK_MORE", spare - 1)
    with pytest.raises(IntegrityError, match=f"more than {size - 1} bytes"):
        check_archive(path, path.name)


def test_packages_may_unpack_to_a_gibibyte_more(tmp_path):
    """A few bytes of zeros are no bomb yet."""
    check_archive(packed(tmp_path / "a.whl", {"zeros": bytes(5 << 20)}), "a.whl")


def test_stopped_between_two_pieces(tmp_path):
    """The next run goes on with what is on disk."""
    asked = []
    path = packed(tmp_path / "a.whl", MEMBERS)
    with pytest.raises(Interrupted) as caught:
        check_archive(path, "a.whl", cancelled=lambda: asked.append(None) or len(asked) == 3)
    assert len(asked) == 3
    assert "again" in caught.value.hint
