"""The last net: no password is shown, however its address was mistyped; other text stays as it is."""

from __future__ import annotations

import hashlib

import pytest

from resume_dl.model.url import RedactedUrl, redact, scrub


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x http://alice:s3cretPW@127.0.0.1/z", "x http://***@127.0.0.1/z"),
        ("get alice:s3cretPW@h/x", "get ***@h/x"),
        ("'alice:s3cretPW@h/x' is no address", "'***@h/x' is no address"),
        ("htp//alice:s3cretPW@h/x", "htp//***@h/x"),
        ("http:/alice:s3cretPW@h/m.toml", "http:/***@h/m.toml"),
        ("http:/s3cretPW@h/m.toml", "http:/***@h/m.toml"),
        ("http:///alice:s3cretPW@h/m.toml", "http://***@h/m.toml"),
        ("http//alice:s3cretPW@h/x", "http//***@h/x"),
        ("http://alice:s3cret/PW@h/x", "http://***@h/x"),
        ("http://alice:s3cret#PW@h/x", "http://***@h/x"),
        ("http://alice:s3cret'PW@h/x", "http://***@h/x"),
        ("http://alice:s3cret@PW@h/x", "http://***@h/x"),
        ("alice:s3cret@PW@h/x", "***@h/x"),
        ("http://alice:s3cretPW@[::1/x", "<unreadable address>"),
        ("http://h/t/s3cretPW/x", "http://h/t/***/x"),
        ("https://c.org/http//alice:s3cretPW@h/x", "https://c.org/http//***@h/x"),
        ("'http://alice:s3cretPW@h/z': bad name 's3cretPW@h/z'", "'http://***@h/z': bad name '***@h/z'"),
        ("-c=alice:s3cretPW@h", "-c=***@h"),
    ],
)
def test_logins_are_hidden(text, shown):
    """A login is replaced in a good address and in a torn one."""
    assert scrub(text) == shown
    assert scrub(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "conda-forge::numpy", "bob@example.com", "at 12:30:05, 3 of 4", "http://h:8080/path@v1/x@2", "http://h/x#frag",
        "http://[::1]:80/x@1", r"C:\Users\me\x@1.0", "C:/Users/me/x@1.0", "file:/home/me/x@1", "file:///home/a:b@c",
        "https://h", "numpy[version='>=1', build=*cuda]", "error: 3 files: mail bob@example.com", "", "a :: b @ c",
    ],
)  # fmt: skip
def test_other_text_is_left_alone(text):
    """What only looks a little like a login is shown as it was written."""
    assert scrub(text) == text


def test_a_torn_login_is_redacted_as_an_address_too():
    """A password with a slash in it makes no port of its first half."""
    assert redact("http://alice:s3c/ret@h/x") == "http://***@h/x"


@pytest.mark.parametrize(
    "name",
    [
        "key", "api_key", "apikey", "X-Amz-Signature", "X-Amz-Security-Token", "X-Amz-Credential", "AWSAccessKeyId",
        "sig", "token", "access_token", "accessToken", "auth", "pass", "password", "passwd", "pwd", "jwt", "code",
        "secret", "client-secret", "credential", "Key-Pair-Id", "%74oken", "PASSWORD", "key1",
    ],
)  # fmt: skip
def test_query_values_that_are_secrets(name):
    """A whole word of the name says so; neither the value nor a part of it is shown, wherever the pair stands."""
    for before, after in (("", ""), ("a=1&", "&b=2"), ("a=1;", ";b=2")):
        assert redact(f"https://h/f?{before}{name}=s3cret{after}") == f"https://h/f?{before}{name}=***{after}"


@pytest.mark.parametrize("name", ["monkey", "keyword", "design", "tokens", "authors", "decode", "compass", "signal"])
def test_query_values_that_are_not_secrets(name):
    """A word that only has such letters in it is no secret's."""
    assert redact(f"https://h/f?{name}=x&b=2") == f"https://h/f?{name}=x&b=2"


def test_a_torn_login_hides_the_query_too():
    """A password with a slash in it does not keep a token behind it from being hidden."""
    assert redact("http://alice:s3c/ret@h/x?token=abc#frag") == "http://***@h/x?token=***"


def test_fingerprints():
    """Equal for one address and its logins alone; no login goes into it, and each query value does."""
    same = ["http://u:p@h/t/tk-1/f?a=1", "http://x:y@h/t/tk-2/f?a=1#part"]
    others = [
        "http://h/f?token=a",
        "http://h/f?token=b",
        "http://h/f?monkey=a",
        "http://h/f?monkey=b",
        "http://[",
        *same[:1],
    ]
    assert len({RedactedUrl(url).fingerprint for url in same}) == 1
    assert len({RedactedUrl(url).fingerprint for url in others}) == len(others)
    torn = [RedactedUrl(f"http://alice:s3c?{password}@h/x").fingerprint for password in ("a", "b")]
    assert torn[0] == torn[1]


def test_fingerprints_of_plain_addresses_are_those_of_earlier_versions():
    """Part files that an earlier version left for an address without a secret value are continued."""
    assert RedactedUrl("http://u:p@h/f?a=1").fingerprint == hashlib.sha256(b"http://***@h/f?a=1").hexdigest()
