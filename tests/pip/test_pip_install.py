"""``resume-dl pip install``: our download, and then the real pip of the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from resume_dl.app.pip_install import PipInstall
from resume_dl.errors import ConfigurationError, InvalidSpecError
from resume_dl.resolution.pip_arguments import read_arguments
from resume_dl.resolution.pip_option_settings import reinstalls
from resume_dl.settings.pip_find import find_python, own_python
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.fetching import User
from support.installable import venv_with_pip
from support.pip_help import help_of, remember_help
from support.pip_index import big_wheel, build_wheel, write_find_links, write_index
from support.pip_resolving import Told

pytestmark = pytest.mark.nginx
MIB = 1 << 20


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def help_text():
    """What this Python's pip says of its options."""
    return help_of(own_python())


def test_arguments_are_read_as_pip_reads_them(help_text, tmp_path):
    """Short ones in a cluster, values that are joined to them, abbreviations; what is pip's alone keeps its order."""
    text = "-Uqr req.txt --constraint=c.txt -ihttp://h/simple -f links --extra-index-url http://x/ --pre a>=1 --targ t"
    found = read_arguments([*text.split(), "--", "b[c]"], help_text, tmp_path)
    assert found.requirements == ("a>=1", "b[c]")
    assert found.files == (tmp_path / "req.txt",)
    assert found.constraints == (tmp_path / "c.txt",)
    assert str(found.indexes.index_url) == "http://h/simple"
    assert [str(each) for each in found.indexes.extra] == ["http://x"]
    assert found.indexes.find_links == (tmp_path / "links",)
    assert found.indexes.pre
    assert found.passed == ("--upgrade", "--quiet", "--pre", "--target", "t")
    assert found.anew


def test_targets_outside_an_index_are_left_to_pip(help_text, tmp_path):
    """Folders, archives here, version control; a wheel at an address is fetched."""
    elsewhere = ("./a-1.0-py3-none-any.whl", "c-1.0-py3-none-any.whl", "git+https://h/r")
    found = read_arguments(["-e", ".", *elsewhere, "http://h/b-1.0-py3-none-any.whl"], help_text, tmp_path)
    assert found.requirements == ("http://h/b-1.0-py3-none-any.whl",)
    assert found.passed == ("--editable", ".", *elsewhere)
    assert found.unfetched == (".", *elsewhere)


def test_network_options_apply_to_us_and_to_pip(help_text, tmp_path):
    words = ["--proxy", "http://p:1", "--timeout=5", "--no-input", "--keyring-provider", "import", "a"]
    found = read_arguments(words, help_text, tmp_path)
    names = ("PIP_PROXY", "PIP_TIMEOUT", "PIP_NO_INPUT", "PIP_KEYRING_PROVIDER")
    assert found.variables == dict(zip(names, ("http://p:1", "5", "1", "import"), strict=True))
    assert found.passed == ("--proxy", "http://p:1", "--timeout", "5", "--no-input", "--keyring-provider", "import")


@pytest.mark.parametrize(
    "words", [["--no-such-option"], ["-r"], ["a", "--platform", "win_amd64"], ["-r", "http://h/r"]]
)
def test_refused_arguments(help_text, tmp_path, words):
    with pytest.raises(ConfigurationError):
        read_arguments(words, help_text, tmp_path)


def test_an_invalid_requirement_is_refused(help_text, tmp_path):
    with pytest.raises(InvalidSpecError):
        read_arguments(["a=="], help_text, tmp_path)


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def user(tmp_path):
    """Somebody with an active environment, which has no pip: it is served by ours. No mirrors."""
    found = User(tmp_path / "user")
    venv.create(found.folder / "venv", symlinks=True)
    remember_help(found, own_python())
    return found


@pytest.fixture
def own_pip(user):
    """The environment gets the pip that this Python carries along."""
    venv_with_pip(user.folder / "venv")
    remember_help(user, find_python({"VIRTUAL_ENV": str(user.folder / "venv")}))


@pytest.fixture
def built(tmp_path):
    return tmp_path / "built"


def install(user, *arguments, env=None):
    own = ["--mirrors", user.write_mirrors({}), "--give-up-after", "20s"]
    environment = {"VIRTUAL_ENV": str(user.folder / "venv"), **(env or {})}
    return user.run("pip", "install", *own, *arguments, env=environment)


def python_of(folder):
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def versions(user, *modules, folder=None):
    program = "; ".join(["import " + ", ".join(modules), *(f"print({name}.VERSION)" for name in modules)])
    command = [python_of(folder or user.folder / "venv"), "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()


@pytest.mark.usefixtures("own_pip")
def test_it_installs(tmp_path, nginx_mirrors, user, built):
    """From an index and a page without hashes, which pip.conf names; every byte is ours, pip asks nobody."""
    torch = big_wheel(built, size=3 * MIB)
    tqdm = build_wheel(built, "tqdm", "4.66.0")
    write_index(tmp_path / "root", [tqdm])
    write_find_links(tmp_path / "root", [torch])
    nginx = nginx_mirrors([tmp_path / "root"])
    conf = user.folder / "pip.conf"
    conf.write_text(f"[global]\nfind-links = {nginx.base()}/whl/torch_stable.html\nindex-url = {nginx.base()}/simple\n")
    settings = {"PIP_CONFIG_FILE": str(conf)}
    done = install(user, "torch==1.6.0+cu101", "tqdm", env=settings)
    assert done.code == 0, done.err
    assert "Successfully installed" in done.out
    assert versions(user, "torch", "tqdm") == ["1.6.0+cu101", "4.66.0"]
    assert all(request.is_ours for request in nginx.requests())
    nginx.reset_log()
    shutil.rmtree(user.own["cache"] / "wheels")
    again = install(user, "torch==1.6.0+cu101", "tqdm", env=settings)
    assert again.code == 0, again.err
    assert "already satisfied" in again.out
    assert nginx.body_bytes() <= MIB  # METADATA: what is installed is not fetched


@pytest.mark.parametrize("whose", ["ours", "its own"])
def test_a_folder_named_pip_is_not_run(request, nginx_mirrors, user, built, whose):
    """pip runs in the user's folder, for paths are from there; what lies there is no pip."""
    if whose == "its own":
        request.getfixturevalue("own_pip")
    root = built.parent / "root"
    write_index(root, [build_wheel(built, "app", "1.0")])
    (user.folder / "pip").mkdir()
    for name in ("pip/__init__.py", "pip/__main__.py", "runpy.py"):
        (user.folder / name).write_text("print('from the folder'); raise SystemExit(0)\n")
    done = install(user, "app", "-i", f"{nginx_mirrors([root]).base()}/simple")
    assert done.code == 0, done.err
    assert "from the folder" not in done.out
    assert versions(user, "app") == ["1.0"]


def test_a_requirements_file_with_its_own_index(tmp_path, nginx_mirrors, user, built):
    """Its options are ours and not pip's, its hashes and markers are pip's too; what is installed and fits stays."""
    app = build_wheel(built, "demo-app", "2.0", requires=["colorama"])
    colorama = [build_wheel(built / version, "colorama", version) for version in ("0.4.5", "0.4.6")]
    write_index(tmp_path / "root", [app, *colorama])
    write_find_links(tmp_path / "root", colorama, page="page.html")
    nginx = nginx_mirrors([tmp_path / "root"])
    assert install(user, "-i", f"{nginx.base()}/simple", "colorama==0.4.5").code == 0
    file = user.folder / "requirements.txt"
    file.write_text(
        f"--index-url {nginx.base()}/simple\n--find-links {nginx.base()}/page.html\n"
        "demo-app; python_version >= '3'\nno-such; python_version < '3'\n"
    )
    done = install(user, "-r", file)
    assert done.code == 0, done.err
    assert versions(user, "demo_app", "colorama") == ["2.0", "0.4.5"]
    assert all(request.is_ours for request in nginx.requests())


def test_only_the_files_of_the_solution_are_offered(tmp_path, nginx_mirrors, user, built):
    """A newer version that an earlier run left in the wheel dir is not taken in its place."""
    files = [build_wheel(built / version, "app", version) for version in ("1.0", "2.0")]
    write_index(tmp_path / "root", files)
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    assert install(user, "app==2.0", *index, "--target", "elsewhere").code == 0
    file = user.folder / "constraints.txt"
    file.write_text("app<2\n")
    done = install(user, "app", *index, "-c", file)
    assert done.code == 0, done.err
    assert versions(user, "app") == ["1.0"]


def test_a_wrong_hash(tmp_path, nginx_mirrors, user, built):
    """Exit 4, and pip is not run."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0")])
    file = user.folder / "requirements.txt"
    index = f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"
    file.write_text(f"-i {index}\napp==1.0 --hash=sha256:{'0' * 64}\n")
    done = install(user, "-r", file)
    assert (done.code, done.out) == (4, "")


@pytest.mark.usefixtures("own_pip")
def test_a_wheel_that_is_replaced_before_pip_runs(tmp_path, nginx_mirrors, user, built):
    """pip gets each file with its digest, and compares it itself."""
    write_index(tmp_path / "root", [build_wheel(built, "demo", "1.0")])
    index = f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"
    environment = user.environment({"VIRTUAL_ENV": str(user.folder / "venv")})
    setup = load_setup(TransferOptions(mirrors_file=user.write_mirrors({})), environment)
    job = PipInstall(["demo", "--index-url", index], setup, wheel_dir=tmp_path / "wheels")
    assert job.fetch(Told(), lambda: False).exit_code == 0
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    wheel.write_bytes(build_wheel(tmp_path / "evil", "demo", "1.0", files={"evil.py": b""}).path.read_bytes())
    assert job.install() != 0
    assert versions(user, "demo") == []


@pytest.mark.usefixtures("own_pip")
def test_pips_own_failure_is_the_result(tmp_path, nginx_mirrors, user, built):
    """Its exit code is ours, its other options reach it."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0"), build_wheel(built, "lib", "1.0")])
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    done = install(user, "app", *index, "--root-user-action", "nonsense")
    assert done.code == 2
    assert "root-user-action" in done.err
    assert versions(user, "app") == []
    local = build_wheel(user.folder, "local", "1.0", requires=["lib"]).path
    done = install(user, f"./{local.name}", "lib", *index, "--report", "report.json")
    assert done.code == 0, done.err
    assert "its dependencies are not fetched" in done.err
    assert versions(user, "local", "lib") == ["1.0", "1.0"]
    assert (user.folder / "report.json").is_file()


def test_a_dry_run(tmp_path, nginx_mirrors, user, built):
    """What would come; nothing does, and pip is not run."""
    app = build_wheel(built, "app", "1.0")
    write_index(tmp_path / "root", [app])
    nginx = nginx_mirrors([tmp_path / "root"])
    done = install(user, "app", "-i", f"{nginx.base()}/simple", "--dry-run")
    assert done.code == 0, done.err
    assert "planned" in done.out
    assert app.filename in done.out
    assert nginx.body_bytes() == 0


def test_into_another_python(tmp_path, nginx_mirrors, user, built):
    """--python names an environment."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0")])
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    other = user.folder / "other"
    venv.create(other, symlinks=True)
    done = install(user, "app", *index, "--python", other)
    assert done.code == 0, done.err
    assert versions(user, "app", folder=other) == ["1.0"]
    assert versions(user, "app") == []
    done = install(user, "app", *index, "--python", Path("nowhere") / "python")
    assert done.code == 2


def test_network_options_apply_to_our_requests(tmp_path, nginx_mirrors, user, built):
    """Behind a proxy that is not there nothing is reached, whatever NO_PROXY says."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0")])
    nginx = nginx_mirrors([tmp_path / "root"])
    index = ["-i", f"{nginx.base()}/simple", "--give-up-after", "1s"]
    done = install(user, "app", *index, "--proxy", "socks5://me:pass-word@127.0.0.1:9")
    assert done.code == 6, done.err
    assert "proxy" in done.err
    assert "pass-word" not in done.err
    assert nginx.requests() == []


def test_a_lock_file(tmp_path, nginx_mirrors, user, built):
    """-r pylock.toml: its files, no index asked."""
    write_index(
        tmp_path / "root", [build_wheel(built, "app", "1.0", requires=["lib"]), build_wheel(built, "lib", "1.0")]
    )
    nginx = nginx_mirrors([tmp_path / "root"])
    options = ["--mirrors", user.write_mirrors({}), "--index-url", f"{nginx.base()}/simple"]
    assert user.run("fetch", "--pip", "app", *options, "--lock", "pylock.toml", "--dry-run").code == 0
    done = install(user, "-r", "pylock.toml")
    assert done.code == 0, done.err
    assert versions(user, "app", "lib") == ["1.0", "1.0"]


# --- what is left to pip ----------------------------------------------------------------------------------------------


BACKEND = """
import zipfile
from pathlib import Path

import build_tool


def get_requires_for_build_editable(config=None):
    return []


def build_wheel(folder, config=None, metadata=None):
    name = "project-1-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder) / name, "w") as archive:
        archive.writestr("project.py", f"VERSION = {build_tool.VERSION!r}")
        info = "project-1.dist-info"
        archive.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: project\\nVersion: 1\\n")
        archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "/RECORD", "")
    return name


build_editable = build_wheel
"""


@pytest.fixture
def project(user):
    """A folder that is built with build-tool, whose version becomes its own."""
    folder = user.folder / "project"
    folder.mkdir()
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["build-tool<3"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "project"\nversion = "1"\n'
    )
    return folder


def test_lines_of_a_file_reach_pip(tmp_path, nginx_mirrors, user, built):
    """A wheel here is taken, and not the index's newer version; a variable in its line is put in."""
    write_index(
        tmp_path / "root", [build_wheel(built, "app", "1.0", requires=["lib"]), build_wheel(built, "lib", "2.0")]
    )
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    local = build_wheel(user.folder / "wheels", "lib", "1.0").path
    (user.folder / "below").mkdir()
    file = user.folder / "below" / "requirements.txt"
    file.write_text(f"${{WHERE}}/{local.name}\napp\n")
    done = install(user, "-r", file, *index, env={"WHERE": "./wheels"})
    assert done.code == 0, done.err
    assert versions(user, "app", "lib") == ["1.0", "1.0"]


def test_a_limit_that_only_pip_understands(tmp_path, nginx_mirrors, user, built):
    """A constraints file that names a wheel here."""
    write_index(tmp_path / "root", [build_wheel(built, "lib", "2.0")])
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    local = build_wheel(user.folder / "wheels", "lib", "1.0").path
    (user.folder / "limits.txt").write_text(f"lib @ {local.as_uri()}\n")
    done = install(user, "lib", "-c", "limits.txt", *index)
    assert done.code == 0, done.err
    assert versions(user, "lib") == ["1.0"]


def test_limits_hold_where_all_is_left_to_pip(user):
    """pip refuses a wheel here that a constraints file excludes."""
    local = build_wheel(user.folder, "lib", "1.0").path
    (user.folder / "limits.txt").write_text("lib>1\n")
    assert install(user, f"./{local.name}", "-c", "limits.txt").code == 1
    (user.folder / "limits.txt").write_text("# none\n")
    done = install(user, local.name, "-c", "limits.txt")
    assert done.code == 0, done.err
    assert versions(user, "lib") == ["1.0"]


def test_version_control_in_a_file_is_left_to_pip(user):
    """It fails there, for nobody serves it; its password is neither shown nor in a command."""
    (user.folder / "requirements.txt").write_text("git+http://me:${TOKEN}@127.0.0.1:9/project.git\n")
    done = install(user, "-r", "requirements.txt", env={"TOKEN": "hush"})
    assert done.code == 1
    assert "git clone" in done.out + done.err
    assert "hush" not in done.out + done.err


@pytest.mark.parametrize("own", [["-e", "./project"], ["./project"], ["-r", "local.txt"]])
def test_a_project_is_built_with_what_was_fetched(tmp_path, nginx_mirrors, user, project, own):
    """Also twice in a row; its tools come by us, in the version that it asks for, whatever a file asks for."""
    tools = [build_wheel(tmp_path / "built" / version, "build-tool", version) for version in ("1.0", "2.0", "3.0")]
    write_index(tmp_path / "root", tools)
    nginx = nginx_mirrors([tmp_path / "root"])
    (user.folder / "local.txt").write_text(f"-e ./{project.name}\n")
    (user.folder / "requirements.txt").write_text("build-tool==3.0\n")
    words = ["-i", f"{nginx.base()}/simple", *own]
    path_alone = own == ["./project"]
    if path_alone:
        alone = install(user, *words)
        assert alone.code == 0, alone.err + alone.out
        assert versions(user, "project") == ["2.0"]
    for _ in range(2 if path_alone else 1):
        done = install(user, *words, "-r", "requirements.txt")
        assert done.code == 0, done.err + done.out
        assert versions(user, "project", "build_tool") == ["2.0", "3.0"]
    assert all(request.is_ours for request in nginx.requests())


def test_missing_build_requirements_are_reported_and_left_to_pip(tmp_path, nginx_mirrors, user, built, project):
    """The project is not built; nor is that an error where nothing is built in isolation."""
    tool = build_wheel(built, "build-tool", "9.0")
    write_index(tmp_path / "root", [tool])
    words = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple", f"./{project.name}"]
    done = install(user, *words)
    assert done.code == 1
    assert "build requirements of a local project are not fetched" in done.err
    assert install(user, *words[:2], "build-tool").code == 0
    done = install(user, *words, "--no-build-isolation")
    assert done.code == 0, done.err + done.out
    assert versions(user, "project") == ["9.0"]


def test_a_line_that_pip_refuses(user):
    """Exit 2 with file and line, and pip is not run."""
    (user.folder / "requirements.txt").write_text("\ndep @ https://me:hush@h.example/dep-1.0-py3-none-any.whl extra\n")
    done = install(user, "-r", "requirements.txt")
    assert (done.code, done.out) == (2, "")
    assert "requirements.txt, line 2" in done.err
    assert "hush" not in done.err


# --- settings that are options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["force-reinstall", "ignore-installed", "target", "prefix", "root"])
def test_settings_that_want_files_of_what_is_installed(machine, name):
    """By environment and by file; another one is none of them."""
    variable = "PIP_" + name.replace("-", "_").upper()
    assert reinstalls({**machine.env, variable: "no"}, machine.folder)
    assert not reinstalls({**machine.env, "PIP_NO_DEPS": "yes"}, machine.folder)
    conf = machine.write("pip.conf", f"[install]\n{name} = no\n")
    assert reinstalls({**machine.env, "PIP_CONFIG_FILE": str(conf)}, machine.folder)


@pytest.mark.usefixtures("own_pip")
@pytest.mark.parametrize("setting", ["PIP_FORCE_REINSTALL", "target"])
def test_a_setting_that_wants_files_of_what_is_installed(tmp_path, nginx_mirrors, user, built, setting):
    """As the option of that name: the file is fetched again, and pip finds it."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0")])
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    assert install(user, "app", *index).code == 0
    elsewhere = setting.lower().endswith("target")
    value = str(user.folder / "target") if elsewhere else "yes"
    conf = user.folder / "pip.conf"
    conf.write_text(f"[install]\ntarget = {value}\n")
    env = {"PIP_CONFIG_FILE": str(conf)} if setting == "target" else {setting: value}
    done = install(user, "app", *index, env=env)
    assert done.code == 0, done.err
    assert "Successfully installed app-1.0" in done.out
    assert (user.folder / "target" / "app").is_dir() == elsewhere


@pytest.mark.parametrize("by_file", [True, False])
def test_requirements_files_of_the_settings(tmp_path, nginx_mirrors, user, built, by_file):
    """They are read as -r is."""
    write_index(tmp_path / "root", [build_wheel(built, "app", "1.0"), build_wheel(built, "lib", "1.0")])
    index = ["-i", f"{nginx_mirrors([tmp_path / 'root']).base()}/simple"]
    file = user.folder / "requirements.txt"
    file.write_text("lib\n")
    conf = user.folder / "pip.conf"
    conf.write_text(f"[global]\nrequirement = {file}\n")
    env = {"PIP_CONFIG_FILE": str(conf)} if by_file else {"PIP_REQUIREMENT": str(file)}
    done = install(user, "app", *index, env=env)
    assert done.code == 0, done.err
    assert versions(user, "app", "lib") == ["1.0", "1.0"]


def test_a_file_without_requirements(user):
    """Nothing to do is no mistake, as for pip."""
    (user.folder / "requirements.txt").write_text("# later\n")
    done = install(user, "-r", "requirements.txt")
    assert done.code == 0, done.err
