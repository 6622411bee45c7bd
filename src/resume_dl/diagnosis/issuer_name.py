"""The issuer's name in an X.509 certificate (RFC 5280 4.1, DER as of X.690). Pure.

Python's ssl gives the names of a certificate only once it has verified it; here it could not be verified.
"""

from __future__ import annotations

_SEQUENCE, _SET, _INTEGER, _OID, _VERSION = 0x30, 0x31, 0x02, 0x06, 0xA0
_ORGANIZATION, _COMMON_NAME = b"\x55\x04\x0a", b"\x55\x04\x03"
_MOST_PARTS = 64
_MOST_LETTERS = 100


def issuer_name(certificate: bytes) -> str:
    """The issuer's organisation, else its common name; empty if the certificate is malformed or names neither."""
    try:
        fields = _parts(_parts(_one(certificate, _SEQUENCE))[0][1])
        if fields[0][0] == _VERSION:
            del fields[0]
        (serial, _), (algorithm, _), (kind, issuer) = fields[:3]
        if (serial, algorithm, kind) != (_INTEGER, _SEQUENCE, _SEQUENCE):
            return ""
        names = dict(_names(issuer))
    except (IndexError, ValueError):
        return ""
    found = names.get(_ORGANIZATION) or names.get(_COMMON_NAME) or ""
    return " ".join(found.split())[:_MOST_LETTERS]


def _names(issuer: bytes) -> list[tuple[bytes, str]]:
    found = []
    for _, group in _parts(issuer):
        for _, pair in _parts(group):
            (kind, oid), (coding, value) = _parts(pair)[:2]
            if kind == _OID:
                # BMPString is UTF-16; the other strings are UTF-8 or parts of it, but for old Latin-1 ones.
                found.append((oid, value.decode("utf-16-be" if coding == 0x1E else "utf-8", "replace")))
    return found


def _one(data: bytes, kind: int) -> bytes:
    found, content, _ = _element(data)
    if found != kind:
        raise ValueError("another element was expected")
    return content


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """The elements in ``data``. Raises IndexError or ValueError."""
    found: list[tuple[int, bytes]] = []
    while data:
        kind, content, data = _element(data)
        found.append((kind, content))
        if len(found) > _MOST_PARTS:
            raise ValueError("too many elements")
    return found


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Tag, content, and what follows."""
    kind, length, start = data[0], data[1], 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("the length is not DER")
        length, start = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    if start + length > len(data):
        raise ValueError("the element is cut off")
    return kind, data[start : start + length], data[start + length :]
