"""Which request brought which package, for targets other than this machine too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata

from resume_dl.bundle.metadata import read_metadata
from resume_dl.bundle.requested import Reasons, all_reasons, conda_reasons, pip_reasons
from resume_dl.model.bundle import BundlePackage
from resume_dl.resolve.pylock import marker_environment
from support.pip_index import build_sdist, build_wheel

DATA = Path(__file__).parents[1] / "data" / "pytorch-linux-64-repodata.json"


def conda(name: str, subdir: str = "linux-64") -> BundlePackage:
    return BundlePackage(
        path=f"channel/{subdir}/{name}.conda", kind="conda", name=name, version="1", url="", size=1, sha256="a" * 64
    )


def solved(depends: Mapping[str, Sequence[str]], **options: Any) -> Reasons:
    """Of a solution that is written as name -> depends."""
    packages = [conda(name) for name in depends]
    records = {package.path: {"depends": [*depends[package.name]]} for package in packages}
    return conda_reasons(packages, records, **options)


def names(reasons: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """With names in place of paths where there are paths."""
    plain = {path: Path(path).stem for path in reasons}
    return {plain[path]: [plain.get(each, each) for each in found] for path, found in reasons.items()}


class Wheels:
    """Wheels that were built, as a bundle's packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages: list[BundlePackage] = []
        self.metadata: dict[str, RawMetadata] = {}

    def add(self, name: str, *requires: str, sdist: bool = False, **extras: Sequence[str]) -> str:
        more = {each.replace("_", "-"): needed for each, needed in extras.items()}
        built = (
            build_sdist(self.folder, name, "1.0", requires=requires)
            if sdist
            else build_wheel(self.folder, name, "1.0", requires=requires, extras=more)
        )
        path = f"wheels/{built.filename}"
        kind = "sdist" if sdist else "wheel"
        self.packages.append(
            BundlePackage(path=path, kind=kind, name=name, version="1.0", url="", size=built.size, sha256=built.sha256)
        )
        self.metadata[path] = read_metadata(built.path)
        return path

    def reasons(self, platform: str = "linux-64", python: str = "3.8", **options: Any) -> Reasons:
        return pip_reasons(self.packages, self.metadata, environment=marker_environment(platform, python), **options)


# --- conda ------------------------------------------------------------------------------------------------------------


def test_depends_are_followed_from_each_spec():
    """Through everything that a spec needs; what two need has both."""
    found = solved(
        {
            "pytorch": ["python >=3.8,<3.9.0a0", "numpy >=1.11", "cudatoolkit >=11.0,<11.1", "__cuda >=11"],
            "pandas": ["numpy", "python_abi 3.8.* *_cp38"],
            "numpy": ["python"],
            "python": ["openssl"],
            "openssl": [],
            "cudatoolkit": [],
            "python_abi": [],
        },
        asked={"pytorch=1.7": ["pytorch"], "pandas": ["Pandas"]},
        add_pip=False,
    )
    both = ["pandas", "pytorch=1.7"]
    assert names(found.requested_by) == {
        "pytorch": ["pytorch=1.7"],
        "pandas": ["pandas"],
        "numpy": both,
        "python": both,
        "openssl": both,
        "cudatoolkit": ["pytorch=1.7"],
        "python_abi": ["pandas"],
    }
    assert names(found.depends)["pytorch"] == ["cudatoolkit", "numpy", "python"]
    assert names(found.depends)["openssl"] == []


def test_python_brings_pip_where_conda_adds_it():
    """No record says so; pip's own need of python is a circle."""
    depends = {"python": [], "pip": ["python", "setuptools"], "setuptools": ["python"], "git": []}
    found = solved(depends, asked={"python=3.8": ["python"], "git": ["git"]})
    assert names(found.requested_by)["setuptools"] == ["python=3.8"]
    assert names(found.depends)["python"] == ["pip"]
    found = solved(depends, asked={"python=3.8": ["python"], "git": ["git"]}, add_pip=False)
    assert names(found.requested_by)["setuptools"] == ["git", "python=3.8"]
    assert names(found.depends)["python"] == []


def test_specs_in_records_as_channels_write_them():
    """With a channel, without a blank, in brackets; nonsense and records without depends need nothing."""
    depends = {"a": ["conda-forge::b >=1", "c>=1", "d[version='>=1']", "E 1", "", "=1", 7, None], "b": [], "c": []}
    found = solved({**depends, "d": [], "e": []}, asked={"a": ["a"]})
    assert names(found.depends)["a"] == ["b", "c", "d", "e"]
    packages = [conda("x"), conda("y")]
    assert conda_reasons(packages, {"channel/linux-64/x.conda": {"depends": 7}}, asked={}).depends == {
        "channel/linux-64/x.conda": (),
        "channel/linux-64/y.conda": (),
    }


def test_a_list_is_the_reason_for_exactly_its_packages():
    """Beside a spec; a package that both name has both."""
    found = solved(
        {"a": ["b"], "b": [], "c": ["b"]},
        asked={"a": ["a"]},
        listed={"explicit.txt": ["channel/linux-64/c.conda", "channel/linux-64/a.conda"]},
    )
    assert names(found.requested_by) == {"a": ["a", "explicit.txt"], "b": ["a"], "c": ["explicit.txt"]}


def test_a_package_without_a_known_reason_was_required_by_the_whole_request():
    """The environment's own packages are not in a bundle: what they need is, and the request is why."""
    found = solved({"a": [], "far": []}, asked={"a": ["a"], "b": ["b"]}, listed={"list": []})
    assert names(found.requested_by) == {"a": ["a"], "far": ["a", "b"]}


def test_records_of_the_real_channel():
    """pytorch's own: torchvision needs pytorch, torchaudio too, and neither the other."""
    records = json.loads(DATA.read_text(encoding="utf-8"))["packages"]
    chosen = {}
    for name, version in (("pytorch", "1.7.1"), ("torchvision", "0.8.2"), ("torchaudio", "0.7.2")):
        chosen[name] = next(each for each in records.values() if (each["name"], each["version"]) == (name, version))
    packages = [conda(name) for name in chosen]
    found = conda_reasons(
        packages,
        {package.path: chosen[package.name] for package in packages},
        asked={"torchvision=0.8": ["torchvision"], "torchaudio": ["torchaudio"]},
    )
    assert names(found.requested_by) == {
        "pytorch": ["torchaudio", "torchvision=0.8"],
        "torchvision": ["torchvision=0.8"],
        "torchaudio": ["torchaudio"],
    }


# --- pip --------------------------------------------------------------------------------------------------------------


def test_requirements_are_followed_with_the_markers_of_the_target(tmp_path):
    """Not with those of this machine: colorama is for Windows, importlib-metadata for an old Python."""
    wheels = Wheels(tmp_path)
    tqdm = wheels.add("tqdm", "colorama; platform_system == 'Windows'", "Importlib.Metadata; python_version < '3.8'")
    colorama, metadata = wheels.add("colorama"), wheels.add("importlib-metadata")
    asked = {"tqdm>=4": ["tqdm>=4"], "other": ["other"]}
    everybody = ("other", "tqdm>=4")
    for platform, python, needed in (
        ("win-64", "3.10", {colorama}),
        ("linux-64", "3.7.9", {metadata}),
        ("osx-arm64", "3.12", set()),
    ):
        found = wheels.reasons(platform, python, asked=asked)
        assert found.depends[tqdm] == tuple(sorted(needed))
        for path in (colorama, metadata):
            assert found.requested_by[path] == (("tqdm>=4",) if path in needed else everybody)


def test_extras_are_followed_where_they_are_asked_for(tmp_path):
    """By the request or by another package, in any spelling, and through an extra that names others."""
    wheels = Wheels(tmp_path)
    client = wheels.add(
        "client",
        "urllib3",
        socks=["pysocks; python_version >= '3'"],
        all=["client[socks,Big-Data]"],
        big_data=["arrow"],
    )
    urllib3, pysocks, arrow = wheels.add("urllib3"), wheels.add("PySocks"), wheels.add("arrow")
    user = wheels.add("user", "client[socks]")
    found = wheels.reasons(asked={"client": ["client"], "user": ["user"], "env.yml": ["Client[ALL]>=1"]})
    assert found.requested_by == {
        client: ("client", "env.yml", "user"),
        urllib3: ("client", "env.yml", "user"),
        pysocks: ("env.yml", "user"),
        arrow: ("env.yml",),
        user: ("user",),
    }
    assert found.depends[client] == tuple(sorted([urllib3, pysocks, arrow]))
    assert found.depends[user] == (client,)


def test_a_requirement_for_another_platform_brings_nothing(tmp_path):
    """Its marker is the request's own."""
    wheels = Wheels(tmp_path)
    path = wheels.add("pywin32")
    asked = {"pywin32; sys_platform == 'win32'": ["pywin32; sys_platform == 'win32'"], "requirements.txt": ["pywin32"]}
    assert wheels.reasons("linux-64", asked=asked).requested_by == {path: ("requirements.txt",)}
    assert wheels.reasons("win-64", asked=asked).requested_by == {path: tuple(asked)}


def test_an_address_asks_for_its_project(tmp_path):
    """As ``name @ address``."""
    wheels = Wheels(tmp_path)
    torch, numpy = wheels.add("torch", "numpy"), wheels.add("numpy")
    asked = {"torch.whl": ["torch @ https://h.example/whl/torch-1.0-py3-none-any.whl"], "x": ["x"]}
    assert wheels.reasons(asked=asked).requested_by == {torch: ("torch.whl",), numpy: ("torch.whl",)}


def test_unreadable_files_are_skipped(tmp_path):
    """Old wheels write requirements that nothing takes; a marker that cannot be judged counts as true."""
    wheels = Wheels(tmp_path)
    old, numpy, six = wheels.add("old"), wheels.add("numpy"), wheels.add("six")
    wheels.metadata[old] = {"requires_dist": ["numpy (>1.8.*", "six; platform_release ~= 'x'", "=="]}
    found = wheels.reasons(asked={"old": ["old"], "nonsense": ["=="]})
    assert found.depends[old] == (six,)
    assert found.requested_by == {old: ("old",), six: ("old",), numpy: ("nonsense", "old")}


def test_a_source_archive_that_does_not_say_what_it_needs(tmp_path):
    """Without METADATA at hand too: what it needs was brought by the whole request; a lock names what it lists."""
    wheels = Wheels(tmp_path)
    sdist, wheel = wheels.add("legacy", sdist=True), wheels.add("needed")
    del wheels.metadata[wheel]
    found = wheels.reasons(asked={"legacy": ["legacy"]}, listed={"pylock.toml": [wheel]})
    assert found.requested_by == {sdist: ("legacy",), wheel: ("pylock.toml",)}
    found = wheels.reasons(asked={"legacy": ["legacy"]})
    assert found.requested_by == {sdist: ("legacy",), wheel: ("legacy",)}
    assert found.depends == {sdist: (), wheel: ()}


# --- together ---------------------------------------------------------------------------------------------------------


def test_a_noarch_package_has_the_reasons_of_each_platform():
    """It may depend on another build of the same package on each."""
    noarch, linux, windows = conda("app", "noarch"), conda("base"), conda("base", "win-64")
    records = {noarch.path: {"depends": ["base"]}}
    found = all_reasons(
        [
            conda_reasons([noarch, linux], records, asked={"app": ["app"]}),
            conda_reasons([noarch, windows], records, asked={"app": ["app"], "base": ["base"]}),
        ]
    )
    assert found.depends == {noarch.path: (linux.path, windows.path), linux.path: (), windows.path: ()}
    assert found.requested_by == {noarch.path: ("app",), linux.path: ("app",), windows.path: ("app", "base")}


def test_a_long_chain_is_no_recursion():
    """Deeper than Python's stack."""
    found = solved({f"n{i}": [f"n{i + 1}"] for i in range(5000)}, asked={"n0": ["n0"], "other": ["other"]})
    assert set(found.requested_by.values()) == {("n0",)}
