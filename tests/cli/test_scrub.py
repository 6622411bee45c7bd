"""The last net: no password is shown, however its address was mistyped; other text stays as it is."""

from __future__ import annotations

import pytest

from resume_dl.model.url import redact, scrub


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
