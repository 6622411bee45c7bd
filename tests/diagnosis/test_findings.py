"""``doctor``: what each check makes of facts."""

from __future__ import annotations

import pytest

from resume_dl.diagnosis.address_check import Address, SettingsFacts, check_settings, of_channels
from resume_dl.diagnosis.conda_check import CondaFacts, PluginAnswer, check_conda
from resume_dl.diagnosis.conda_probe import parse_answer
from resume_dl.diagnosis.console_check import ConsoleFacts, check_console
from resume_dl.diagnosis.folder_check import FolderFacts, check_folders
from resume_dl.diagnosis.gpu_check import GpuFacts, check_gpu
from resume_dl.diagnosis.issuer_name import issuer_name
from resume_dl.diagnosis.network_check import Answer, NetworkFacts, check_network
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.shell_commands import Step, command_line

TABLE = load_mirrors()
TUNA = "https://mirrors.tuna.tsinghua.edu.cn/anaconda"
FINE = PluginAnswer("26.7.1", "1.0", loaded=True)


def statuses(findings):
    """Name and status of each finding."""
    return [(each.name, each.status.value) for each in findings]


def conda(answer=FINE, **facts):
    return CondaFacts(
        **{"executable": "/c/bin/conda", "root": "/c", "python": "/c/bin/python", "answer": answer, **facts}
    )


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (conda(), [("conda", "ok"), ("plugin", "ok")]),
        (conda(trouble="conda did not answer within 60 s"), [("conda", "problem"), ("plugin", "ok")]),
        (conda(None), [("conda", "ok"), ("plugin", "problem")]),
        (conda(python=""), [("conda", "ok"), ("plugin", "note")]),
        (conda(PluginAnswer("26.7.1")), [("conda", "ok"), ("plugin", "note")]),
        (conda(PluginAnswer("26.7.1", "1.0")), [("conda", "ok"), ("plugin", "problem")]),
        (conda(PluginAnswer("26.7.1", "1.0", switched_off=True)), [("conda", "ok"), ("plugin", "note")]),
        (conda(PluginAnswer("26.7.1", "0.9", loaded=True)), [("conda", "ok"), ("plugin", "note")]),
        (CondaFacts(), [("conda", "note")]),
        (CondaFacts(unset=True), [("conda", "note")]),
        (CondaFacts(trouble="RESUME_DL_CONDA names x, which does not exist"), [("conda", "problem")]),
    ],
)
def test_conda(facts, expected):
    assert statuses(check_conda(facts, "1.0")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "resume-dl-doctor:",
        "resume-dl-doctor:[1]",
        'resume-dl-doctor:{"conda": 1}',
        "resume-dl-doctor:" + "[" * 9999,
        'resume-dl-doctor:{"ours": "%s"}' % ("9" * 101),
    ],
)
def test_an_answer_that_is_no_answer(text):
    assert parse_answer(text) is None


def test_an_answer_after_the_lines_of_other_plugins():
    said = 'hello {"loaded": true}\nresume-dl-doctor:{"conda": "26.7.1", "ours": "1.0", "loaded": true}\nbye'
    assert parse_answer(said) == FINE


CACHE = {"cache": "/p", "environments": "/e", "links": True, "free": 20 << 30, "packages": 3}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {}),
        ({"links": False}, {"links": "note"}),
        ({"links": None}, {"links": "note"}),
        ({"free": 5 << 30}, {"disk": "note"}),
        ({"free": 1}, {"disk": "problem"}),
        ({"packages": None}, {"packages": "note"}),
        ({"damaged": ("a-1-0", "b", "c", "d")}, {"packages": "problem"}),
        ({"exposed": "/p belongs to another user"}, {"cache": "note"}),
        ({"own_refusals": ("/x (/ is read-only)",)}, {"folders": "problem"}),
    ],
)
def test_folders(changes, expected):
    found = dict(statuses(check_folders(FolderFacts(**{**CACHE, **changes}))))
    assert found == {"cache": "ok", "links": "ok", "packages": "ok", "disk": "ok", **expected}


def test_no_cache_can_be_written():
    (found,) = check_folders(FolderFacts(refusal="no package cache can be written: /p (no permission to write)"))
    assert (found.status.value, bool(found.command)) == ("problem", True)


@pytest.mark.parametrize(
    ("facts", "status", "text"),
    [
        (GpuFacts("11.0", "450.80.02"), "ok", "driver 450.80.02 supports CUDA <= 11.0; pytorch 1.7.1 cuda110 fits"),
        (GpuFacts("", "450.80.02"), "ok", "driver 450.80.02 supports CUDA <= 11.0; pytorch 1.7.1 cuda110 fits"),
        (
            GpuFacts("", "450.80", windows=True),
            "ok",
            "driver 450.80 supports CUDA <= 10.2; pytorch 1.12.1 cuda102 fits",
        ),
        (GpuFacts("13.0"), "ok", "the NVIDIA driver supports CUDA <= 13.0; pytorch 2.5.1 cuda124 fits"),
        (GpuFacts("", "340.10"), "note", "older than CUDA 8.0"),
        (GpuFacts(), "ok", "no NVIDIA driver"),
        (GpuFacts("11.0", override="12.4"), "problem", "CONDA_OVERRIDE_CUDA=12.4 chooses builds that it cannot run"),
        (GpuFacts("11.0", override=""), "note", "CONDA_OVERRIDE_CUDA is empty"),
        (GpuFacts(override="12.4"), "note", "no NVIDIA driver found; CONDA_OVERRIDE_CUDA=12.4"),
        (GpuFacts("garbage", "\x1b[2J"), "note", "older"),
    ],
)
def test_gpu(facts, status, text):
    (found,) = check_gpu(facts)
    assert found.status.value == status
    assert text in found.text


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ConsoleFacts(encoding="UTF-8"), [("encoding", "ok", "")]),
        (ConsoleFacts(encoding="ascii"), [("encoding", "note", "export LC_ALL=C.UTF-8")]),
        (
            ConsoleFacts(windows=True, code_page=936, long_paths=True),
            [("encoding", "note", "chcp 65001"), ("paths", "ok", "")],
        ),
        (ConsoleFacts(windows=True, code_page=65001), [("encoding", "ok", "")]),
    ],
)
def test_console(facts, expected):
    assert [(each.name, each.status.value, each.command) for each in check_console(facts)] == expected


def test_long_paths_are_switched_on_by_a_command():
    *_, found = check_console(ConsoleFacts(windows=True, code_page=65001, long_paths=False))
    assert "LongPathsEnabled" in found.command


CONDARC = {
    "channels": ["conda-forge", f"{TUNA}/cloud/nvidia", 3, "http://[", None],
    "default_channels": ["http://mirrors.tuna.tsinghua.edu.cn/anaconda/pkgs/main", f"{TUNA}/pkgs/r"],
    "custom_channels": {"nvidia": "https://mirrors.bfsu.edu.cn/anaconda/cloud", "pytorch": f"{TUNA}/cloud", 5: 6},
    "channel_alias": f"{TUNA}/cloud",
    "unknown": "http://x",
}


def of_condarc(content):
    return check_settings(SettingsFacts(("/u/.condarc",), (), tuple(of_channels("/u/.condarc", content))), TABLE)


def steps(*commands):
    return command_line([Step(("conda", "config", "--file", "/u/.condarc", *words.split())) for words in commands])


def test_condarc_with_every_mistake():
    retired, plain, lacks = of_condarc(CONDARC)
    assert {each.status.value for each in (retired, plain, lacks)} == {"problem"}
    assert "retired" in retired.text
    upstream = "https://conda.anaconda.org"
    assert retired.command == steps(f"--remove channels {TUNA}/cloud/nvidia", f"--append channels {upstream}/nvidia")
    main = "mirrors.tuna.tsinghua.edu.cn/anaconda/pkgs/main"
    assert plain.command == steps(
        f"--remove default_channels http://{main}", f"--prepend default_channels https://{main}"
    )
    assert "does not carry nvidia" in lacks.text
    assert lacks.command == steps(f"--set custom_channels.nvidia {upstream}")


@pytest.mark.parametrize("content", [{}, {"channels": 5}, {"custom_channels": []}, {"channel_alias": ["x"]}])
def test_condarc_without_mistakes(content):
    assert statuses(of_condarc(content)) == [("settings", "ok")]


@pytest.mark.parametrize(
    "url", ["http://u:secret@mirrors.bfsu.edu.cn/anaconda/cloud", "https://pypi.douban.com/simple/\x1b[2J"]
)
def test_no_command_shows_a_secret_or_drives_a_terminal(url):
    for each in of_condarc({"channels": [url, f"{url}/nvidia"]}):
        assert "secret" not in each.text
        assert "secret" not in each.command
        assert each.command.isprintable()


@pytest.mark.parametrize(
    ("url", "scope", "command"),
    [
        ("https://pypi.douban.com/simple", "--user", "pip config --user unset global.index-url"),
        ("http://pypi.tuna.tsinghua.edu.cn/simple", "", ""),
        ("https://pypi.tuna.tsinghua.edu.cn/simple", "--user", None),
    ],
)
def test_pip_conf(url, scope, command):
    each = Address("/u/pip.conf", "global.index-url", url, url, client="pip", scope=scope)
    (found,) = check_settings(SettingsFacts(("/u/pip.conf",), (), (each,)), TABLE)
    assert (found.name, found.status.value) == (("settings", "ok") if command is None else ("pip.conf", "problem"))
    words = command.split() if command else []
    assert found.command == (command_line([Step(words)]) if words else "")


def test_a_file_that_cannot_be_read_is_a_problem():
    found = check_settings(SettingsFacts(("/c",), (("condarc", "/c is not text in UTF-8"),)), TABLE)
    assert statuses(found) == [("condarc", "problem")]


GOOD = Answer("tuna", "mirrors.tuna", status=206, skew=1.0)
UP = Answer("conda.anaconda.org", "conda.anaconda.org", canonical=True, status=200, skew=-2.0)
LATE = {"skew": 4000.0}


def network(*answers, **facts):
    return check_network(NetworkFacts(**{"proxies": {}, "answers": answers, "seconds": 15.0, **facts}))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([GOOD, UP], {}),
        ([GOOD, Answer("a", "a", status=403)], {"mirrors": "note"}),
        ([GOOD, Answer("a", "a", silent=True)], {"mirrors": "note"}),
        ([GOOD, Answer("a", "a", trouble="cannot resolve", unresolved="a")], {"mirrors": "note", "dns": "note"}),
        (
            [GOOD, Answer("a", "a", True, untrusted=True, trouble="x", issuer="Zscaler")],
            {"mirrors": "note", "tls": "problem"},
        ),
        ([GOOD, Answer("a", "a", untrusted=True, trouble="x")], {"mirrors": "note", "tls": "note"}),
        ([Answer("a", "a", status=200, portal=True), UP], {"login": "problem"}),
        ([Answer("a", "a", status=206, **LATE), Answer("b", "b", status=206, **LATE), UP], {"clock": "problem"}),
        ([Answer("a", "a", status=206, **LATE), GOOD, UP], {}),
    ],
)
def test_network(answers, expected):
    found = dict(statuses(network(*answers)))
    assert found == {"proxies": "ok", "tls": "ok", "dns": "ok", "clock": "ok", "mirrors": "ok", **expected}


def test_an_interceptor_is_named_and_a_wrong_clock_measured():
    by = Answer("a", "conda.anaconda.org", True, untrusted=True, trouble="x", issuer="Zscaler Inc.")
    assert any("issued by Zscaler Inc." in each.text for each in network(by, GOOD))
    assert any("1 h 6 min behind" in each.text for each in network(Answer("a", "a", status=206, **LATE)))


def test_nothing_answers():
    lost = Answer("a", "a", trouble="cannot resolve host name", unresolved="a")
    assert statuses(network(lost)) == [("proxies", "ok"), ("dns", "problem"), ("mirrors", "problem")]
    assert ("mirrors", "problem") in statuses(network(Answer("a", "a", silent=True)))


def test_a_package_index_alone_is_not_enough():
    pypi = Answer("pip", "index.example", canonical=True, status=206, conda=False)
    lost = Answer("a", "a", trouble="cannot resolve host name", unresolved="a")
    assert ("mirrors", "problem") in statuses(network(pypi, lost))


def test_settings_of_the_network():
    offline = network(answers=None, proxies={"https": ("http://u:secret@proxy:3128", "HTTPS_PROXY")}, verified=False)
    assert statuses(offline) == [("proxies", "ok"), ("tls", "problem"), ("network", "note")]
    assert "HTTPS_PROXY" in offline[0].text
    ntlm = network(proxies={"https": ("http://proxy:3128", "HTTPS_PROXY")}, auth=ProxyAuth.NTLM)
    assert ntlm[0].text == "https: http://proxy:3128 (HTTPS_PROXY); login by NTLM (proxy_auth)"
    assert "secret" not in offline[0].text
    assert statuses(network(trouble="https_proxy names a proxy with an unknown scheme")) == [("proxies", "problem")]
    assert statuses(network(trouble="ssl_verify names /x")) == [("proxies", "ok"), ("network", "problem")]


def der(kind, *parts):
    body = b"".join(parts)
    return bytes([kind, 0x82]) + len(body).to_bytes(2, "big") + body


def certificate(issuer):
    rest = [der(0xA0, der(2, b"\2")), der(2, b"\1"), der(0x30), issuer, der(0x30)]
    return der(0x30, der(0x30, *rest), der(0x30))


def named(oid, text):
    return der(0x31, der(0x30, der(6, oid), der(0x0C, text)))


CASES = certificate(der(0x30, named(b"\x55\x04\x03", b"a root"), named(b"\x55\x04\x0a", b"Zscaler  Inc.")))


def test_the_issuer_of_a_certificate():
    assert issuer_name(CASES) == "Zscaler Inc."
    assert issuer_name(certificate(der(0x30, named(b"\x55\x04\x03", b"a root")))) == "a root"
    assert issuer_name(certificate(der(0x30))) == ""


def test_a_certificate_that_is_cut_or_changed_names_no_one_and_raises_nothing():
    for end in range(len(CASES)):
        assert issuer_name(CASES[:end]) == ""
        for value in (0, 0x80, 0xFF):
            issuer_name(CASES[:end] + bytes([value]) + CASES[end + 1 :])
