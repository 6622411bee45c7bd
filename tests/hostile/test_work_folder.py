"""``.resume-dl/`` where others may write: private, refused where another user can write to it, shared by a group."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resume_dl import fs
from resume_dl.app.leftovers import clean, find
from resume_dl.caches.conda.extraction_folders import sweep
from resume_dl.errors import NotWritableError, StoreError, UntrustedFolderError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.pkgs_dirs import check_pkgs_dir
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.work_folder import is_trusted, make_work_folder, not_writable
from support.users import ALICE, BOB, GROUP, MALLORY, as_user, common_folder, give, needs_users

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX")

DATA = b"the file that was asked for" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()
KEY = f"sha256-{SHA256}"


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder as ``/tmp`` is, which all users may write to."""
    with common_folder() as folder:
        yield folder


@pytest.fixture
def home(common: Path) -> Path:
    """Alice's own, with a file that she would not lose."""
    folder = common / "alice"
    folder.mkdir()
    give(folder, ALICE, mode=0o755)
    (folder / "thesis.txt").write_text("years")
    give(folder / "thesis.txt", ALICE)
    return folder


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def get(
    user: int, common: Path, home: Path, output: Path | str | None = None, group: int | None = None
) -> tuple[int, str]:
    """``resume-dl get --sha256`` by this user, from a file that can be read, into the common folder."""
    source = common / "source"
    source.write_bytes(DATA)
    source.chmod(0o644)
    words = (
        "-m",
        "resume_dl",
        "get",
        source.as_uri(),
        "--sha256",
        SHA256,
        "-o",
        output or common / "out",
        "--force",
        "--quiet",
    )
    done = as_user(user, *words, cwd=home, group=group)
    return done.returncode, done.stderr


def plant(folder: Path, home: Path) -> None:
    """What Mallory lays there: links to Alice's file, and to bytes of her own that are right for now."""
    own = folder.parent / "mallorys"
    own.write_bytes(DATA)
    give(own, MALLORY, mode=0o666)
    for name, target in {".lock": home / "thesis.txt", ".journal": home / "thesis.txt", ".part": own}.items():
        (folder / f"{KEY}{name}").symlink_to(target)


@needs_users
def test_a_planted_folder_is_refused(common: Path, home: Path) -> None:
    """Exit 5, what and why and what to do; nothing is written through its links, and no link is published."""
    folder = common / FOLDER
    folder.mkdir()
    give(folder, MALLORY, mode=0o777)
    plant(folder, home)
    code, told = get(ALICE, common, home)
    assert (home / "thesis.txt").read_text() == "years"
    assert not os.path.lexists(common / "out")
    assert code == 5, told
    assert f"{folder} belongs to another user, {MALLORY}, who can put links" in told
    assert "choose another folder" in told
    assert "Traceback" not in told
    assert get(0, common, common)[0] == 5, "root is no more trusting, where the place is not that user's"
    assert (home / "thesis.txt").read_text() == "years"


@needs_users
@pytest.mark.parametrize("kind", ["link", "file", "writable", "writable by a group"])
def test_a_folder_that_leads_elsewhere_or_is_open_is_refused(common: Path, home: Path, kind: str) -> None:
    """Even where it is one's own: others may have put anything into it."""
    folder = common / FOLDER
    if kind == "file":
        folder.touch()
        give(folder, ALICE)
    elif kind == "link":
        folder.symlink_to(home)
        give(folder, MALLORY)
    else:
        folder.mkdir()
        give(folder, ALICE, GROUP, 0o777 if kind == "writable" else 0o770)
    code, told = get(ALICE, common, home)
    assert code == 5, told
    expected = {
        "link": "is a link: files written to it would land where the link leads",
        "file": "is not a folder",
        "writable": "can be written to by every user of this machine",
        "writable by a group": f"can be written to by group {GROUP}",
    }
    assert f"{folder} {expected[kind]}" in told
    assert sorted(path.name for path in home.glob("[!.]*")) == ["thesis.txt"]


@needs_users
def test_it_is_made_for_its_user_alone(common: Path, home: Path) -> None:
    """Whatever the umask allows; and removed at the end, as before."""
    make = "from resume_dl.store.work_folder import make_work_folder as m; from pathlib import Path; m(Path('x/y'))"
    assert as_user(ALICE, "-c", make, umask=0, cwd=home).stderr == ""
    assert mode_of(home / "x" / "y") == 0o700
    code, told = get(ALICE, common, home)
    assert code == 0, told
    assert (common / "out").read_bytes() == DATA
    assert not (common / FOLDER).exists()


BEGIN = f"""
import sys, zlib
from pathlib import Path
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import PartStore
wanted = Artifact(kind="file", filename="f", url=RedactedUrl("https://example.org/f"), size=1 << 20, sha256={SHA256!r})
part = PartStore(Path(sys.argv[1])).open(wanted, journaled=True)
print(part.resume().ranges)
start = int(sys.argv[2])
part.write(start, b"x" * 1000)
part.record_written(start, start + 1000, zlib.crc32(b"x" * 1000), "here")
part.close()
"""


@needs_users
def test_a_group_shares_a_cache(common: Path, home: Path) -> None:
    """setgid, writable by the group, umask 002: one begins, another goes on; a third user is kept out."""
    pkgs = common / "pkgs"
    pkgs.mkdir()
    give(pkgs, 0, GROUP, 0o2775)
    begun = as_user(ALICE, "-c", BEGIN, pkgs / FOLDER, "0", group=GROUP, umask=0o002)
    assert (begun.returncode, begun.stdout) == (0, "()\n"), begun.stderr
    found = (pkgs / FOLDER).lstat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (ALICE, GROUP, 0o2770)
    gone_on = as_user(BOB, "-c", BEGIN, pkgs / FOLDER, "1000", group=GROUP, umask=0o002)
    assert (gone_on.returncode, gone_on.stdout) == (0, "((0, 1000),)\n"), gone_on.stderr
    again = as_user(ALICE, "-c", BEGIN, pkgs / FOLDER, "2000", group=GROUP, umask=0o002)
    assert (again.returncode, again.stdout) == (0, "((0, 2000),)\n"), again.stderr
    assert as_user(MALLORY, "-c", BEGIN, pkgs / FOLDER, "3000").returncode != 0
    (pkgs / FOLDER).chmod(0o2777)  # now a third user could have written there
    refused = as_user(BOB, "-c", BEGIN, pkgs / FOLDER, "4000", group=GROUP, umask=0o002)
    assert "UntrustedFolderError" in refused.stderr


@needs_users
def test_a_group_with_the_wrong_umask_is_told_so(common: Path, home: Path) -> None:
    """022 keeps what one began from the others: whose file it is, and what both have to do."""
    pkgs = common / "pkgs"
    pkgs.mkdir()
    give(pkgs, 0, GROUP, 0o2775)
    begun = as_user(ALICE, "-c", BEGIN, pkgs / FOLDER, "0", group=GROUP)
    assert begun.returncode == 0, begun.stderr
    (common / "bob").mkdir()
    code, told = get(BOB, common, give(common / "bob", BOB), pkgs / "out", group=GROUP)
    assert code == 5, told
    assert f"{KEY}.lock belongs to {ALICE}, and the group that shares this folder cannot write to it" in told
    assert "umask 002" in told
    assert f"chmod -R g+w {pkgs / FOLDER}" in told
    assert "with -o" in told
    assert "--pkgs-dir" not in told


@pytest.mark.parametrize("named", [True, False])
def test_the_owner_of_a_file_that_the_group_may_not_write_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Where the system says which file it is; else its reason alone, without advice about modes."""
    tmp_path.chmod(0o2770)
    path = tmp_path / "key.lock"
    path.touch()
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    error = not_writable(PermissionError(13, "Permission denied", str(path) if named else 7), tmp_path)
    if named:
        assert error.message.startswith(f"{path} belongs to ")
        assert f"chmod -R g+w {tmp_path}" in error.hint
    else:
        assert error.message == f"{tmp_path} cannot be written: Permission denied"
        assert "chmod" not in error.hint


@needs_users
def test_no_member_of_a_group_is_taken_for_the_place_without_setgid(common: Path) -> None:
    """Without it the group was not asked to share: another's folder is another's."""
    pkgs = common / "pkgs"
    (pkgs / FOLDER).mkdir(parents=True)
    give(pkgs, 0, GROUP, 0o775)
    give(pkgs / FOLDER, BOB, GROUP, 0o770)
    refused = as_user(ALICE, "-c", BEGIN, pkgs / FOLDER, "0", group=GROUP, umask=0o002)
    assert f"belongs to another user, {BOB}" in refused.stderr


@needs_users
def test_root_goes_on_in_a_users_own_place(home: Path) -> None:
    """``sudo``, or a container whose cache is the host user's: the folder is of whom the place is."""
    (home / FOLDER).mkdir()
    give(home / FOLDER, ALICE, mode=0o700)
    assert is_trusted(home / FOLDER)
    give(home / FOLDER, MALLORY)
    assert not is_trusted(home / FOLDER)


def test_a_disk_without_owners_and_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each folder that is made has mode 0777 (FAT, WSL's drives), that says nothing of this one."""
    real = os.mkdir

    def mkdir(path: str, mode: int = 0o777, **more: int) -> None:
        real(path, mode, **more)
        Path(path).chmod(0o777)

    folder = tmp_path / FOLDER
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UntrustedFolderError):
        make_work_folder(folder)
    monkeypatch.setattr(os, "mkdir", mkdir)
    make_work_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER]


@needs_users
def test_nothing_is_shown_or_removed_in_a_planted_folder(common: Path, home: Path) -> None:
    """``status`` and ``clean`` pass over it: what they would remove lies where another user's links lead."""
    folder = common / FOLDER
    folder.symlink_to(home)
    give(folder, MALLORY)
    for name in ("aside-1", "extract-2-x"):
        (home / name).mkdir()
    for name in ("extract-2.lock", f"{KEY}.part", f"{KEY}.lock", "0123456789abcdef-x.conda", "ahead-x.json"):
        (home / name).write_text("mine")
    before = sorted(path.name for path in home.iterdir())
    sweep(common)
    assert (find([folder]), clean([folder])) == ([], [])
    assert sorted(path.name for path in home.iterdir()) == before
    assert (home / "extract-2.lock").read_text() == "mine"


@pytest.mark.parametrize("suffix", [".part", ".lock", ".journal", ".new"])
def test_no_open_of_a_part_store_follows_a_link(tmp_path: Path, suffix: str) -> None:
    """Nor in a folder of a group, where a member could make one."""
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years")
    (tmp_path / FOLDER).mkdir(mode=0o700)
    (tmp_path / FOLDER / f"{KEY}{suffix}").symlink_to(thesis)
    told = resumed(tmp_path / FOLDER)
    assert thesis.read_text() == "years"
    if suffix == ".new":
        assert told == ""  # it is ours to write: the link went
    else:
        assert "is a link, which is not followed" in told


@pytest.mark.parametrize("before", ["a file", "nothing"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_TRUNC], ids=["read", "write"])
def test_a_link_that_is_planted_between_look_and_open_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, flags: int
) -> None:
    """The look that every open begins with leaves a moment in which another user can put a link there."""
    victim, path = tmp_path / "thesis.txt", tmp_path / "x.part"
    victim.write_text("years")
    if before == "a file":
        path.write_text("ours")
    look = os.stat

    def look_then_plant(place: Path, **options: Any) -> os.stat_result:
        try:
            return look(place, **options)
        finally:
            if place == path:
                path.unlink(missing_ok=True)
                path.symlink_to(victim)

    monkeypatch.setattr(os, "stat", look_then_plant)
    with pytest.raises(OSError, match="is a link, which is not followed"):
        os.close(fs.open_regular(path, flags))
    assert path.is_symlink()
    assert victim.read_text() == "years"


def resumed(folder: Path) -> str:
    """What opening and resuming a part file there raises; empty where it works."""
    try:
        url = RedactedUrl("https://example.org/f")
        wanted = Artifact(kind="file", filename="f", url=url, size=1 << 20, sha256=SHA256)
        part = PartStore(folder).open(wanted, journaled=True)
        try:
            part.resume()
        finally:
            part.close()
    except StoreError as error:
        return error.message
    return ""


def test_a_lock_whose_file_has_another_name_is_held_and_not_written(tmp_path: Path) -> None:
    """A hard link to somebody's document: it would be cut to nothing, and the owner's note put there."""
    (tmp_path / "thesis.txt").write_text("years")
    os.link(tmp_path / "thesis.txt", tmp_path / "x.lock")
    lock = FileLock(tmp_path / "x.lock")
    lock.acquire()
    assert lock.held
    lock.release()
    assert (tmp_path / "thesis.txt").read_text() == "years"


@needs_users
def test_another_users_link_in_the_place_of_the_file(common: Path, home: Path) -> None:
    """``-o`` follows the user's own links; one that lies in a common folder led to another file of the user's."""
    (common / "out").symlink_to(home / "thesis.txt")
    give(common / "out", MALLORY)
    code, told = get(ALICE, common, home)
    assert code == 5, told
    assert f"{common / 'out'} is a link that another user made" in told
    assert (home / "thesis.txt").read_text() == "years"
    give(common / "out", ALICE)
    assert get(ALICE, common, home)[0] == 0
    assert (home / "thesis.txt").read_bytes() == DATA


@needs_users
@pytest.mark.parametrize("output", ["link/", "link", "link/out", "link/new/"])
def test_another_users_link_on_the_way_to_the_file(common: Path, home: Path, output: str) -> None:
    """A folder that is such a link is not followed either, wherever on the way it stands; one's own is."""
    (common / "link").symlink_to(home)
    give(common / "link", MALLORY)
    code, told = get(ALICE, common, home, f"{common}/{output}")
    assert code == 5, told
    assert f"{common / 'link'} is a link that another user made" in told
    assert sorted(path.name for path in home.glob("[!.]*")) == ["thesis.txt"]
    give(common / "link", ALICE)
    code, told = get(ALICE, common, home, f"{common}/{output}")
    assert code == 0, told


@needs_users
@pytest.mark.parametrize("option", ["--dest", "--pkgs-dir", "--rattler-cache"])
def test_a_folder_that_is_another_users_link(common: Path, home: Path, option: str) -> None:
    """Refused before anything is asked for, wherever packages are to go."""
    (common / "link").symlink_to(home)
    give(common / "link", MALLORY)
    line = ("-m", "resume_dl", "fetch", "--file", common / "list.txt", option, common / "link")
    (common / "list.txt").write_text(f"@EXPLICIT\nhttp://127.0.0.1:1/linux-64/a-1-0.conda#{'0' * 32}\n")
    (common / "list.txt").chmod(0o644)
    done = as_user(ALICE, *line, cwd=home)
    assert done.returncode == 5, done.stderr
    assert f"{common / 'link'} is a link that another user made" in done.stderr
    assert sorted(path.name for path in home.glob("[!.]*")) == ["thesis.txt"]


@needs_users
@pytest.mark.parametrize(
    "line",
    [
        ("-m", "resume_dl", "fetch", "--file", "list.txt", "--dest", "new", "--lock", "LINK"),
        ("-m", "resume_dl", "fetch", "--file", "list.txt", "--dest", "new", "--debug-trace", "LINK"),
        ("-m", "resume_dl", "bundle", "inventory", "-o", "LINK"),
        ("-m", "resume_dl.trace", "run.jsonl", "-o", "LINK"),
    ],
    ids=["lock", "trace", "inventory", "picture"],
)
def test_no_output_is_written_through_another_users_link(common: Path, home: Path, line: tuple[str, ...]) -> None:
    """Every file that an option names, not only downloads."""
    (common / "link").symlink_to(home / "thesis.txt")
    give(common / "link", MALLORY)
    (home / "list.txt").write_text(f"@EXPLICIT\nhttp://127.0.0.1:1/linux-64/a-1-0.conda#{'0' * 32}\n")
    (home / "run.jsonl").write_text('{"trace": 1, "version": "1", "started": ""}\n')
    done = as_user(ALICE, *(common / "link" if word == "LINK" else word for word in line), cwd=home)
    assert done.returncode == 5, done.stderr
    assert f"{common / 'link'} is a link that another user made" in done.stderr
    assert (home / "thesis.txt").read_text() == "years"


def test_a_new_package_cache_makes_no_file_behind_a_link(tmp_path: Path) -> None:
    """``urls`` and ``urls.txt`` are made in it, and each may be a dangling link by then."""
    (tmp_path / "pkgs").mkdir()
    (tmp_path / "pkgs" / "urls").symlink_to(tmp_path / "made")
    with pytest.raises(NotWritableError, match="is a link"):
        check_pkgs_dir(tmp_path / "pkgs", create=True)
    assert not (tmp_path / "made").exists()
