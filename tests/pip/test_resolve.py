"""Requirements to files: the right ones for each platform, from indexes of every form, with few bytes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from resume_dl.errors import (
    ChannelUnavailableError,
    ConfigurationError,
    DigestMismatchError,
    Interrupted,
    InvalidSpecError,
    PackageNotFoundError,
    UnsatisfiableError,
)
from support.pip_index import big_wheel, build_sdist, build_wheel, write_find_links, write_index
from support.pip_resolving import Resolving, by_name, names

HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"


@pytest.fixture
def user(tmp_path):
    return Resolving(tmp_path)


@pytest.fixture(scope="session")
def torch(tmp_path_factory):
    """A wheel of 100 MB."""
    return big_wheel(tmp_path_factory.mktemp("big"), size=100 * 10**6)


# --- indexes of every form --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"html": False}, {"json": False}, {"core_metadata": False}])
def test_an_index_of_every_form(tmp_path, nginx_mirrors, user, options):
    """PEP 503 and 691, with and without PEP 658: the same files, with digest, size and canonical address."""
    wheel = build_wheel(tmp_path / "built", "demo.app", "1.0", requires=["Helper_Lib"])
    helper = build_wheel(tmp_path / "built", "helper-lib", "2.0")
    write_index(tmp_path / "root", [wheel, helper], **options)
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("Demo_App", index=f"{nginx.base()}/simple/")
    assert names(solution) == {wheel.filename, helper.filename}
    found = by_name(solution)["demo-app"]
    assert (found.kind, found.version, found.sha256, found.size) == ("wheel", "1.0", wheel.sha256, wheel.size)
    assert found.url.reveal() == f"{nginx.base()}/{wheel.url_path}"
    assert found.url.reveal() in solution.lock_text
    assert wheel.sha256 in solution.lock_text


def test_an_index_without_digests(tmp_path, nginx_mirrors, user):
    """Nothing is downloaded to have one, and none is made up; the lock takes it in when it is known."""
    from resume_dl.resolution.pip_solution import with_digests

    wheel = build_wheel(tmp_path / "built", "demo-app", "1.0")
    write_index(tmp_path / "root", [wheel], hashes=False, core_metadata=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("demo-app", index=f"{nginx.base()}/simple")
    (found,) = solution.artifacts
    assert found.digest is None
    assert any("no digest" in note for note in solution.notes)
    assert wheel.sha256 not in solution.lock_text
    assert wheel.sha256 in with_digests(solution, {wheel.filename: wheel.sha256})


def test_names_with_a_plus(tmp_path, nginx_mirrors, user):
    """+cu101 is quoted in links and not in file names; the page is like torch_stable.html."""
    linux = build_wheel(tmp_path / "built", "torch", "1.6.0+cu101", tag="cp37-cp37m-linux_x86_64", requires=["numpy"])
    windows = build_wheel(tmp_path / "built", "torch", "1.6.0+cu101", tag="cp37-cp37m-win_amd64", requires=["numpy"])
    cpu = build_wheel(tmp_path / "built", "torch", "1.6.0+cpu", tag="cp37-cp37m-linux_x86_64")
    numpy = build_wheel(tmp_path / "built", "numpy", "1.19.0")
    write_find_links(tmp_path / "root", [linux, windows, cpu])
    write_index(tmp_path / "root", [numpy])
    nginx = nginx_mirrors([tmp_path / "root"])
    solutions = user.solutions(
        "torch==1.6.0+cu101",
        index=f"{nginx.base()}/simple",
        find_links=(f"{nginx.base()}/whl/torch_stable.html",),
        platforms=("linux-64", "win-64"),
        python="3.7",
    )
    assert [names(solution) for solution in solutions] == [
        {linux.filename, numpy.filename},
        {windows.filename, numpy.filename},
    ]
    url = by_name(solutions[0])["torch"].url.reveal()
    assert url == f"{nginx.base()}/whl/cu101/torch-1.6.0%2Bcu101-cp37-cp37m-linux_x86_64.whl"


def test_folders_and_files_on_this_machine(tmp_path, user):
    """A folder of wheels, a page kept as a file, an index kept as a folder."""
    one = build_wheel(tmp_path / "wheels", "one", "1.0", requires=["two", "three"])
    two = build_wheel(tmp_path / "built", "two", "1.0")
    three = build_wheel(tmp_path / "built", "three", "1.0")
    (tmp_path / "wheels" / "notes.txt").write_text("no wheel")
    write_find_links(tmp_path, [two], page="page/links.html")
    write_index(tmp_path / "index", [three], json=False)
    solution = user.resolve(
        "one",
        index=(tmp_path / "index" / "simple").as_uri(),
        find_links=(tmp_path / "wheels", tmp_path / "page" / "links.html"),
    )
    assert names(solution) == {one.filename, two.filename, three.filename}
    assert by_name(solution)["one"].url.reveal() == one.path.as_uri()


def test_a_page_that_moved(tmp_path, fault_server, user):
    """Relative links start from where a redirect led; the body may come packed."""
    from faults.behaviours import Gzip, Redirect

    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel], json=False)
    server = fault_server()
    server.mount(tmp_path / "root")
    page = (tmp_path / "root" / "simple" / "demo" / "index.html").read_bytes()
    server.put("/far/simple/demo/page", page)
    server.put("/simple/demo/", page)
    server.put(f"/far/{wheel.url_path}", wheel.path.read_bytes())
    server.put(f"/far/{wheel.url_path}.metadata", wheel.metadata)
    server.always(0, Redirect("/far/simple/demo/page"), path="/simple/demo/")
    server.always(0, Gzip(), path="/far/simple/demo/page")
    solution = user.resolve("demo", index=f"{server.base()}/simple")
    assert [artifact.url.reveal() for artifact in solution.artifacts] == [f"{server.base()}/far/{wheel.url_path}"]


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_big_wheel_without_digest_or_metadata(tmp_path, nginx_mirrors, user, torch):
    """Its end is enough: less than a hundredth comes, and its size is learnt with it."""
    write_find_links(tmp_path / "root", [torch])
    nginx = nginx_mirrors([tmp_path / "root"])
    page = f"{nginx.base()}/whl/torch_stable.html"
    solution = user.resolve("torch==1.6.0+cu101", find_links=(page,), no_index=True)
    (found,) = solution.artifacts
    assert (found.size, found.digest) == (torch.size, None)
    assert nginx.body_bytes(archives=False) < torch.size / 100
    wheels = [request for request in nginx.requests() if request.uri.endswith(".whl")]
    assert wheels
    assert all(request.status == 206 for request in wheels)


def test_metadata_that_stands_first(tmp_path, nginx_mirrors, user):
    """A wheel may begin with its .dist-info: two parts are read then, and not what lies between."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", dist_info_first=True, filler=2_000_000, requires=["other"])
    other = build_wheel(tmp_path / "built", "other", "1.0")
    write_index(tmp_path / "root", [wheel, other], core_metadata=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("demo", index=f"{nginx.base()}/simple")
    assert names(solution) == {wheel.filename, other.filename}
    assert nginx.body_bytes() < 100_000
    assert len([request for request in nginx.requests() if request.uri.endswith(wheel.filename)]) == 2


def test_a_server_without_ranges(tmp_path, nginx_mirrors, user):
    """As python -m http.server is: the wheel is read once, which is said."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", filler=1_000_000)
    write_index(tmp_path / "root", [wheel], core_metadata=False, json=False)
    nginx = nginx_mirrors([tmp_path / "root"], max_ranges=0)
    solution = user.resolve("demo", index=f"{nginx.base()}/simple")
    assert by_name(solution)["demo"].size == wheel.size
    assert any("does not support ranges" in note for note in solution.notes)
    whole = [request for request in nginx.archive_requests() if request.bytes == wheel.size]
    assert len(whole) == 1


# --- platforms --------------------------------------------------------------------------------------------------------


def test_markers_of_another_platform(tmp_path, nginx_mirrors, user):
    """tqdm brings colorama on Windows, and only there."""
    tqdm = build_wheel(tmp_path / "built", "tqdm", "4.66", requires=['colorama; platform_system == "Windows"'])
    colorama = build_wheel(tmp_path / "built", "colorama", "0.4.6")
    write_index(tmp_path / "root", [tqdm, colorama])
    nginx = nginx_mirrors([tmp_path / "root"])
    platforms = ("win-64", "linux-64", "osx-arm64")
    solutions = user.solutions("tqdm", index=f"{nginx.base()}/simple", platforms=platforms, python="3.10")
    assert [solution.platform for solution in solutions] == [*platforms]
    assert [names(solution) for solution in solutions] == [
        {tqdm.filename, colorama.filename},
        {tqdm.filename},
        {tqdm.filename},
    ]
    assert solutions[0].python == "3.10"
    assert len([request for request in nginx.requests() if request.uri == "/simple/tqdm/"]) == 1


def test_wheels_of_this_machine(tmp_path, nginx_mirrors, user):
    """Of several, the one for the Python that will install."""
    tags = [f"{HERE}-{HERE}-manylinux_2_17_x86_64", "cp27-cp27mu-manylinux1_x86_64", f"{HERE}-{HERE}-win_amd64"]
    wheels = [build_wheel(tmp_path / "built", "demo", "1.0", tag=tag) for tag in tags]
    write_index(tmp_path / "root", wheels)
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("demo", index=f"{nginx.base()}/simple", platforms=("linux-64",))
    assert names(solution) == {wheels[0].filename}


def test_a_python_that_uv_does_not_run(tmp_path, nginx_mirrors, user, monkeypatch):
    """Its version counts, though another Python is asked about the machine."""
    from resume_dl.settings.pip_find import TargetPython

    platform = "win_amd64" if os.name == "nt" else "manylinux_2_17_x86_64"
    tags = [f"cp37-cp37m-{platform}", f"{HERE}-{HERE}-{platform}"]
    wheels = [build_wheel(tmp_path / "built", "demo", "1.0", tag=tag) for tag in tags]
    write_index(tmp_path / "root", wheels)
    nginx = nginx_mirrors([tmp_path / "root"])
    old = TargetPython(tmp_path / "python3.7", tmp_path, "3.7.9", has_pip=False)
    monkeypatch.setattr("resume_dl.resolution.pip_resolution.find_python", lambda _: old)
    assert names(user.resolve("demo", index=f"{nginx.base()}/simple")) == {wheels[0].filename}


def test_no_wheel_for_the_platform(tmp_path, nginx_mirrors, user):
    """Exit 3, and the message says which there are."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", tag="cp310-cp310-win_amd64")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    with pytest.raises(UnsatisfiableError) as caught:
        user.resolve("demo", index=f"{nginx.base()}/simple", platforms=("osx-arm64",), python="3.10")
    assert wheel.filename in caught.value.message + caught.value.hint
    assert caught.value.exit_code == 3


def test_only_a_source_archive(tmp_path, nginx_mirrors, user):
    """Nothing is built unless that was allowed; the message says how."""
    trap = tmp_path / "trap"
    sdist = build_sdist(tmp_path / "built", "demo", "1.0", trap=trap)
    write_index(tmp_path / "root", [sdist])
    nginx = nginx_mirrors([tmp_path / "root"])
    with pytest.raises(UnsatisfiableError) as caught:
        user.resolve("demo", index=f"{nginx.base()}/simple")
    assert "--allow-sdist" in caught.value.message + caught.value.hint
    assert not trap.exists()


def test_a_source_archive_that_was_allowed(tmp_path, nginx_mirrors, user):
    sdist = build_sdist(tmp_path / "built", "demo", "1.0", requires=["other"])
    other = build_wheel(tmp_path / "built", "other", "1.0")
    write_index(tmp_path / "root", [sdist, other])
    nginx = nginx_mirrors([tmp_path / "root"])
    solution = user.resolve("demo", index=f"{nginx.base()}/simple", allow_sdist=True)
    assert names(solution) == {sdist.filename, other.filename}
    assert by_name(solution)["demo"].kind == "sdist"
    assert any(sdist.filename in note for note in solution.notes)


# --- which version ----------------------------------------------------------------------------------------------------


@pytest.fixture
def versions(tmp_path, nginx_mirrors):
    """demo 1.0, 1.1 (yanked), 2.0 for Python 4, 3.0a1."""
    built = tmp_path / "built"
    files = [
        build_wheel(built, "demo", "1.0"),
        build_wheel(built, "demo", "1.1", yanked="broken"),
        build_wheel(built, "demo", "2.0", requires_python=">=4"),
        build_wheel(built, "demo", "3.0a1"),
        build_wheel(built, "needs-old", "1.0", requires=["demo<1"]),
    ]
    return lambda **form: (
        write_index(tmp_path / "root", files, **form),
        nginx_mirrors([tmp_path / "root"]).base() + "/simple",
    )[1]


@pytest.mark.parametrize("form", [{"html": False}, {"json": False}])
def test_yanked_and_pre_releases(user, versions, form):
    """As pip does: a yanked file only where it is named exactly, pre-releases only where asked for."""
    index = versions(**form)
    assert by_name(user.resolve("demo", index=index))["demo"].version == "1.0"
    assert by_name(user.resolve("demo==1.1", index=index))["demo"].version == "1.1"
    assert by_name(user.resolve("demo", index=index, pre=True))["demo"].version == "3.0a1"


def test_contradictions_are_explained(user, versions):
    """By the resolver itself, without an address or an option of its own."""
    with pytest.raises(UnsatisfiableError) as caught:
        user.resolve("demo>=1", "needs-old", index=versions())
    text = caught.value.message
    assert "needs-old" in text
    assert "demo<1" in text
    assert "127.0.0.1" not in text
    assert "uv" not in text.split()


def test_an_unknown_name(user, versions):
    with pytest.raises(PackageNotFoundError, match="nosuchthing") as caught:
        user.resolve("nosuchthing", index=versions())
    assert caught.value.exit_code == 3


def test_constraints(tmp_path, user, versions):
    limits = tmp_path / "limits.txt"
    limits.write_text("demo==1.1\nunused==7\n")
    solution = user.resolve("demo", index=versions(), constraints=(limits,))
    assert by_name(solution)["demo"].version == "1.1"


def test_a_requirement_by_address(tmp_path, nginx_mirrors, user):
    """Exactly that file, though the index has a newer one; its digest may stand behind it."""
    old, new = (build_wheel(tmp_path / "built", "demo", version, requires=["other"]) for version in ("1.0", "2.0"))
    other = build_wheel(tmp_path / "built", "other", "1.0", requires=["demo"])
    same = build_wheel(tmp_path / "same", "demo", "1.0", tag=f"{HERE}-none-any")  # a closer match
    write_index(tmp_path / "root", [new, same, other])
    (tmp_path / "root" / "files").mkdir()
    (tmp_path / "root" / "files" / old.filename).write_bytes(old.path.read_bytes())
    nginx = nginx_mirrors([tmp_path / "root"])
    url = f"{nginx.base()}/files/{old.filename}"
    solution = user.resolve(f"demo @ {url}#sha256={old.sha256}", index=f"{nginx.base()}/simple")
    assert names(solution) == {old.filename, other.filename}
    found = by_name(solution)["demo"]
    assert (found.url.reveal(), found.sha256) == (url, old.sha256)


def test_an_invalid_requirement_is_refused(user):
    with pytest.raises(InvalidSpecError) as caught:
        user.resolve("demo @@ 1", index="http://127.0.0.1:9/simple")
    assert caught.value.exit_code == 2


# --- several indexes --------------------------------------------------------------------------------------------------


@pytest.fixture
def two_indexes(tmp_path, nginx_mirrors):
    """A private index with ours 1.0, a public one with ours 9.9 and other: nginx 0 and 1."""
    write_index(tmp_path / "private", [build_wheel(tmp_path / "built", "ours", "1.0", requires=["other"])])
    write_index(
        tmp_path / "public",
        [build_wheel(tmp_path / "evil", "ours", "9.9"), build_wheel(tmp_path / "built", "other", "1.0")],
    )
    return nginx_mirrors([tmp_path / "private", tmp_path / "public"])


def test_a_project_belongs_to_one_index(user, two_indexes):
    """Dependency confusion: the public index has a higher version of a private name, which is not looked at."""
    nginx = two_indexes
    solution = user.resolve("ours", index=f"{nginx.base(1)}/simple", extra=(f"{nginx.base(0)}/simple",))
    assert {each.name: each.version for each in solution.artifacts} == {"ours": "1.0", "other": "1.0"}
    assert "/simple/ours/" not in [request.uri for request in nginx.requests(1)]


def test_the_index_used_is_named_if_another_may_have_the_version(user, two_indexes):
    """With the way out, which is one: the other order."""
    nginx = two_indexes
    private, public = (f"{nginx.base(number)}/simple" for number in (0, 1))
    with pytest.raises(UnsatisfiableError) as caught:
        user.resolve("ours==9.9", index=public, extra=(private,))
    assert f"was found on {private}" in caught.value.hint
    assert "others were not searched" in caught.value.hint
    assert "--extra-index-url" in caught.value.hint
    assert names(user.resolve("ours==9.9", index=private, extra=(public,))) == {"ours-9.9-py3-none-any.whl"}


def test_a_private_index_that_is_down_is_not_skipped(user, two_indexes):
    """Else whoever can cut it off decides what is installed."""
    nginx = two_indexes
    nginx.change(0, status=403)
    with pytest.raises(ChannelUnavailableError) as caught:
        user.resolve("ours", index=f"{nginx.base(1)}/simple", extra=(f"{nginx.base(0)}/simple",))
    assert caught.value.exit_code == 6
    assert "/simple/ours/" not in [request.uri for request in nginx.requests(1)]


# --- mirrors ----------------------------------------------------------------------------------------------------------


def test_mirrors_that_the_user_names_in_turn(tmp_path, nginx_mirrors, user):
    """One is down, the next has it: each stands in for the index itself, which is not asked; and this is said."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "full", [wheel])
    nginx = nginx_mirrors([tmp_path / "full"] * 3)
    nginx.change(0, status=503)
    for number, name in enumerate(("down", "good", "unasked")):
        user.mirror(name, pypi_simple=f"{nginx.base(number)}/simple", pypi_files=f"{nginx.base(number)}/packages")
    user.origins["pypi:simple"] = "http://127.0.0.1:9/simple"
    user.options["index_from"] = ("down", "good")
    assert names(user.resolve("demo")) == {wheel.filename}
    assert nginx.requests(0)
    assert nginx.requests(2) == []
    assert user.told.lines.count("index of http://127.0.0.1:9/simple from good, as --index-from says") == 1


def test_a_host_that_is_down_is_not_asked_for_every_page(tmp_path, nginx_mirrors, fault_server, user):
    """What one page has found out the next ones know."""
    wheels = [
        build_wheel(tmp_path / "built", f"demo{n}", "1.0", requires=[f"demo{n + 1}"] * (n < 9)) for n in range(10)
    ]
    write_index(tmp_path / "root", wheels)
    nginx = nginx_mirrors([tmp_path / "root"] * 2)
    server = fault_server()
    for number in range(10):
        server.put(f"/simple/demo{number}/", b"cut off")
    from faults.behaviours import Drop

    server.always(0, Drop(0), path="*")
    for number, name in enumerate(("good", "better")):
        user.mirror(name, pypi_simple=f"{nginx.base(number)}/simple", pypi_files=f"{nginx.base(number)}/packages")
    user.origins["pypi:simple"] = f"{server.base()}/simple"
    solution = user.resolve("demo0")
    assert len(solution.artifacts) == 10
    assert len(server.requests()) < 6
    assert "two mirrors of different operators agree" in user.told.text


def test_a_kept_page_that_is_behind(tmp_path, nginx_mirrors, user):
    """A page that is still fresh is not asked for again, unless there is no answer in it; no mirror is asked."""
    old, new = (build_wheel(tmp_path / "built", "demo", version) for version in ("1.0", "2.0"))
    write_index(tmp_path / "root", [old])
    nginx = nginx_mirrors([tmp_path / "root", tmp_path / "root"])
    nginx.change(0, max_age=600)
    user.mirror("other", pypi_simple=f"{nginx.base(1)}/simple", pypi_files=f"{nginx.base(1)}/packages")
    user.origins["pypi:simple"] = f"{nginx.base(0)}/simple"
    assert names(user.resolve("demo")) == {old.filename}
    write_index(tmp_path / "root", [new, old])
    nginx.reset_log()
    assert names(user.resolve("demo")) == {old.filename}
    assert nginx.requests() == []
    assert names(user.resolve("demo==2.0")) == {new.filename}
    with pytest.raises(UnsatisfiableError, match="3"):
        user.resolve("demo==3.0")
    assert nginx.requests(1) == []


def test_no_index_can_be_reached(user):
    """Exit 6, with every place that was tried."""
    user.mirror("one", pypi_simple="http://127.0.0.1:9/one")
    user.origins["pypi:simple"] = "http://127.0.0.1:9/simple"
    with pytest.raises(ChannelUnavailableError) as caught:
        user.resolve("demo", index="http://127.0.0.1:9/one")
    assert caught.value.exit_code == 6
    assert caught.value.tried == ("http://127.0.0.1:9/one/demo/", "http://127.0.0.1:9/simple/demo/")


def test_offline(tmp_path, user):
    """Only this machine is asked."""
    wheel = build_wheel(tmp_path / "wheels", "demo", "1.0")
    user.options["offline"] = True
    assert names(user.resolve("demo", find_links=(tmp_path / "wheels",), no_index=True)) == {wheel.filename}
    with pytest.raises(ChannelUnavailableError, match="there is no kept copy of"):
        user.resolve("demo", index="http://127.0.0.1:9/simple")


def test_offline_after_online(tmp_path, nginx_mirrors, user):
    """What was read once is enough to resolve again: pages, that a project is not there, metadata; and no password."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", requires=["other"])
    torch = build_wheel(tmp_path / "built", "torch", "1.0+cpu", requires=["demo"])
    write_index(tmp_path / "private", [wheel])
    write_index(tmp_path / "public", [build_wheel(tmp_path / "built", "other", "1.0")], core_metadata=False)
    write_find_links(tmp_path / "public", [torch])
    nginx = nginx_mirrors([tmp_path / "private", tmp_path / "public"])
    nginx.change(0, login="me:s3cret")
    asked = {
        "index": f"{nginx.base(1)}/simple",
        "extra": (nginx.base(0).replace("//", "//me:s3cret@") + "/simple",),
        "find_links": (f"{nginx.base(1)}/whl/torch_stable.html",),
    }
    online = user.resolve("torch", **asked)
    nginx.reset_log()
    user.options["offline"] = True
    offline = user.resolve("torch", **asked)
    assert nginx.requests() == []
    assert [each.url.reveal() for each in offline.artifacts] == [each.url.reveal() for each in online.artifacts]
    assert [each.sha256 for each in offline.artifacts] == [each.sha256 for each in online.artifacts]
    kept = [*(tmp_path / "cache" / "pip").iterdir()]
    assert len(kept) > 5
    assert not [path for path in kept if b"s3cret" in path.read_bytes()]
    with pytest.raises(ChannelUnavailableError, match="there is no kept copy of"):
        user.resolve("torch", "more", **asked)


def test_a_login_page_is_recognised(tmp_path, fault_server, user):
    """A network that answers everything with its own page has no packages, which is not the package's fault."""
    from faults.behaviours import Page

    server = fault_server()
    server.always(0, Page(), path="*")
    with pytest.raises(ChannelUnavailableError, match="captive portal") as caught:
        user.resolve("demo", index=f"{server.base()}/simple")
    assert caught.value.exit_code == 6


def test_a_refused_login_gets_the_full_hint(fault_server, user):
    """The last net before a user reads it takes nothing of our own words for a password."""
    from faults.behaviours import Status
    from resume_dl.model.url import scrub

    server = fault_server()
    server.always(0, Status(401), path="*")
    with pytest.raises(ChannelUnavailableError, match="401") as caught:
        user.resolve("demo", index=f"{server.base()}/simple")
    assert "in netrc or in its URL" in caught.value.hint
    assert scrub(caught.value.hint) == caught.value.hint


# --- hashes -----------------------------------------------------------------------------------------------------------


def requirements_file(tmp_path, *lines):
    path = tmp_path / "requirements.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_hash_that_the_index_contradicts(tmp_path, nginx_mirrors, user):
    """Exit 4, and both are named."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    path = requirements_file(tmp_path, f"demo==1.0 --hash=sha256:{'0' * 64}")
    with pytest.raises(DigestMismatchError) as caught:
        user.resolve(index=f"{nginx.base()}/simple", files=(path,))
    assert (caught.value.expected, caught.value.actual) == ("0" * 64, wheel.sha256)
    assert wheel.sha256 in caught.value.message
    assert "0" * 64 in caught.value.message


def test_a_hash_chooses_among_files(tmp_path, nginx_mirrors, user):
    """As pip does: what has another hash is no candidate where one has the right one."""
    one = build_wheel(tmp_path / "built", "demo", "1.0", tag="py3-none-any")
    two = build_wheel(tmp_path / "built", "demo", "1.0", tag=f"{HERE}-none-any")
    write_index(tmp_path / "root", [one, two])
    nginx = nginx_mirrors([tmp_path / "root"])
    path = requirements_file(tmp_path, f"demo==1.0 --hash=sha256:{one.sha256}")
    assert names(user.resolve(index=f"{nginx.base()}/simple", files=(path,))) == {one.filename}
    assert names(user.resolve("demo", index=f"{nginx.base()}/simple")) == {two.filename}


def test_a_hash_where_the_index_has_none(tmp_path, nginx_mirrors, user):
    """It is what the bytes will have to be."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel], hashes=False)
    nginx = nginx_mirrors([tmp_path / "root"])
    path = requirements_file(tmp_path, f"demo==1.0 --hash=sha256:{'1' * 64}")
    (found,) = user.resolve(index=f"{nginx.base()}/simple", files=(path,)).artifacts
    assert found.sha256 == "1" * 64


# --- secrets, and what uv is given ------------------------------------------------------------------------------------


def test_a_password_goes_to_its_index_and_nowhere_else(tmp_path, nginx_mirrors, user, monkeypatch):
    """Not to uv, in words, variables or files; not into the lock, notes or errors."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", requires=["missing"])
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    nginx.change(0, login="me:s3cret")
    seen = tmp_path / "seen"
    wrapper = tmp_path / "uv-wrapper"
    import uv

    wrapper.write_text(f'#!/bin/sh\n{{ printf "%s\\n" "$@"; env; cat *.in; }} > {seen}\nexec {uv.find_uv_bin()} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr("resume_dl.resolve.uv.find_uv", lambda: wrapper)
    user.env |= {"PIP_INDEX_URL": "http://x:s3cret@127.0.0.1:9/", "UV_INDEX": "http://x:s3cret@127.0.0.1:9/"}
    index = nginx.base().replace("//", "//me:s3cret@") + "/simple"
    with pytest.raises(PackageNotFoundError) as caught:
        user.resolve("demo", index=index)
    assert "s3cret" not in seen.read_text() + str(caught.value) + caught.value.hint + user.told.text
    write_index(tmp_path / "root", [build_wheel(tmp_path / "built", "missing", "1.0")])
    solution = user.resolve("demo", index=index)
    assert by_name(solution)["demo"].url.reveal() == index.removesuffix("/simple") + f"/{wheel.url_path}"
    assert "s3cret" not in seen.read_text() + solution.lock_text + repr(solution) + user.told.text
    assert f"{nginx.base()}/{wheel.url_path}" in solution.lock_text


def test_the_users_own_uv_and_pip_settings_are_left_out(tmp_path, nginx_mirrors, user):
    """The request says all; a uv.toml in the current folder or a variable would change what comes out."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    user.env |= {"UV_INDEX_URL": "http://127.0.0.1:9/", "UV_OFFLINE": "1", "HTTPS_PROXY": "http://127.0.0.1:9"}
    (tmp_path / "home" / ".config" / "uv").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "uv" / "uv.toml").write_text("offline = true\n")
    assert names(user.resolve("demo", index=f"{nginx.base()}/simple")) == {wheel.filename}


def test_uv_reaches_nothing_but_the_gateway(tmp_path, user, fault_server):
    """What a wheel's metadata names by an address of its own is refused: our transport never saw it."""
    server = fault_server()
    server.put("/evil-1.0-py3-none-any.whl", b"x")
    build_wheel(tmp_path / "wheels", "demo", "1.0", requires=[f"evil @ {server.base()}/evil-1.0-py3-none-any.whl"])
    with pytest.raises(UnsatisfiableError):
        user.resolve("demo", find_links=(tmp_path / "wheels",), no_index=True)
    assert server.requests() == []


def test_stopped(tmp_path, fault_server, user, monkeypatch):
    """A request that waits for an answer ends at once, and so does the resolver; nothing of it stays."""
    from faults.behaviours import NeverAnswer

    server = fault_server()
    server.always(0, NeverAnswer(), path="*")
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    with pytest.raises(Interrupted):
        user.resolve("demo", index=f"{server.base()}/simple", cancelled=lambda: bool(server.requests()))
    assert list(temp.iterdir()) == []


def test_stopped_while_sizes_are_asked_for(tmp_path, fault_server, user):
    """The resolver has ended by then, and we wait for servers by ourselves."""
    from faults.behaviours import NeverAnswer

    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel], json=False)
    server = fault_server()
    server.put("/simple/demo/", (tmp_path / "root" / "simple" / "demo" / "index.html").read_bytes())
    server.put(f"/{wheel.url_path}.metadata", wheel.metadata)
    server.always(0, NeverAnswer(), path="*.whl")

    def asked_for_the_size() -> bool:
        return any(request.path.endswith(".whl") for request in server.requests())

    with pytest.raises(Interrupted):
        user.resolve("demo", index=f"{server.base()}/simple", cancelled=asked_for_the_size)
    assert len([request for request in server.requests() if request.path.endswith(".whl")]) == 1


@pytest.mark.parametrize(
    ("script", "error"),
    [("kill -9 $$", "status -9"), ("echo 'error: no' >&2; echo 'Usage: uv [OPTIONS]' >&2; exit 2", "status 2")],
)
def test_an_internal_failure_of_uv(tmp_path, user, monkeypatch, script, error):
    """That is no contradiction among requirements."""
    from resume_dl.errors import ResolutionError, ResumeDLError

    wrapper = tmp_path / "uv-wrapper"
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr("resume_dl.resolve.uv.find_uv", lambda: wrapper)
    with pytest.raises(ResumeDLError, match=error) as caught:
        user.resolve("demo", no_index=True)
    assert not isinstance(caught.value, ResolutionError)


def test_a_user_who_stops_uv_too(tmp_path, user, monkeypatch):
    """Ctrl-C ends it by itself, before we look: that is an interruption and no answer."""
    wrapper = tmp_path / "uv-wrapper"
    wrapper.write_text("#!/bin/sh\nexit 1\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr("resume_dl.resolve.uv.find_uv", lambda: wrapper)
    with pytest.raises(Interrupted):
        user.resolve("demo", no_index=True, cancelled=lambda: True)


def test_nothing_is_left_behind(tmp_path, user, monkeypatch):
    """Neither uv's cache nor our files for it."""
    build_wheel(tmp_path / "wheels", "demo", "1.0")
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    user.env["TMPDIR"] = str(temp)
    user.resolve("demo", find_links=(tmp_path / "wheels",), no_index=True)
    assert list(temp.iterdir()) == []
    assert not any(path.name == "uv" for path in Path(user.environment()["HOME"]).rglob("*"))
    assert os.environ.get("UV_CACHE_DIR") is None


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_requirements_file_with_a_private_index(tmp_path, nginx_mirrors, user):
    """Its index with its password is used, also for a file that it includes from there; and never shown."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0", requires=["other"])
    other = build_wheel(tmp_path / "built", "other", "1.0")
    write_index(tmp_path / "root", [wheel, other])
    (tmp_path / "root" / "more.txt").write_text("other\n")
    nginx = nginx_mirrors([tmp_path / "root"])
    nginx.change(0, login="me:s3cret")
    index = nginx.base().replace("//", "//me:s3cret@")
    path = requirements_file(tmp_path, f"--index-url {index}/simple", f"-r {index}/more.txt", "demo", "-e .")
    solution = user.resolve(files=(path,))
    assert names(solution) == {wheel.filename, other.filename}
    assert re.search(r"skipped: .*-e \.", user.told.text)
    nginx.change(0, login="me:another")
    with pytest.raises(ChannelUnavailableError) as caught:
        user.resolve(files=(path,))
    assert "s3cret" not in user.told.text + str(caught.value) + caught.value.hint + "".join(caught.value.tried)


def test_require_hashes(tmp_path, nginx_mirrors, user):
    """A dependency without one ends it, as in pip; without the option it is only said."""
    from resume_dl.errors import ResolutionError

    wheel = build_wheel(tmp_path / "built", "demo", "1.0", requires=["other"])
    write_index(tmp_path / "root", [wheel, build_wheel(tmp_path / "built", "other", "1.0")])
    nginx = nginx_mirrors([tmp_path / "root"])
    line = f"demo==1.0 --hash=sha256:{wheel.sha256}"
    solution = user.resolve(index=f"{nginx.base()}/simple", files=(requirements_file(tmp_path, line),))
    assert any("other" in note and "--hash" in note for note in solution.notes)
    path = requirements_file(tmp_path, "--require-hashes", line)
    with pytest.raises(ResolutionError, match="other") as caught:
        user.resolve(index=f"{nginx.base()}/simple", files=(path,))
    assert caught.value.exit_code == 3


def test_our_own_lock(tmp_path, nginx_mirrors, user):
    """What was written for a machine is chosen again for it, beside other requirements; no index is asked for it."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel, build_wheel(tmp_path / "built", "other", "1.0")])
    nginx = nginx_mirrors([tmp_path / "root"])
    lock = tmp_path / "pylock.toml"
    lock.write_text(user.resolve("demo", index=f"{nginx.base()}/simple").lock_text)
    nginx.reset_log()
    (found,) = user.resolve(files=(lock,)).artifacts
    assert (found.filename, found.sha256, found.size) == (wheel.filename, wheel.sha256, wheel.size)
    assert nginx.requests() == []
    both = user.resolve("other", index=f"{nginx.base()}/simple", files=(lock,))
    assert {artifact.name for artifact in both.artifacts} == {"demo", "other"}
    assert both.lock_text == ""


def test_the_default_index_is_asked_of_pip(tmp_path, nginx_mirrors, user):
    """Where the user names none; a mirror that they name stands in for it."""
    wheel = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [wheel])
    nginx = nginx_mirrors([tmp_path / "root"])
    user.mirror("near", pypi_simple=f"{nginx.base()}/simple")
    user.options["index_from"] = ("near",)
    assert names(user.resolve("demo")) == {wheel.filename}


# --- whom to believe --------------------------------------------------------------------------------------------------


def test_an_index_at_plain_http_is_refused_unless_it_is_trusted(tmp_path, user):
    """As pip passes it over: whoever sits between could name other files. Nobody is asked."""
    with pytest.raises(ConfigurationError, match=r"http://h\.invalid/simple is plain http"):
        user.resolve("demo-app", index="http://h.invalid/simple")
    trusting = tmp_path / "trusting.txt"
    trusting.write_text("--trusted-host h.invalid\n", encoding="utf-8")
    user.options["offline"] = True
    with pytest.raises(ChannelUnavailableError):
        user.resolve("demo-app", index="http://h.invalid/simple", files=(trusting,))
