"""Reads the principals of a keytab, so that a wrong one is detected before a domain controller is queried.

The layout is that of MIT Kerberos' documentation, "Keytab file format", version 2; keys are not looked at.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from msmq.errors import MsmqError

LONGEST_KEYTAB: Final = 1024 * 1024
MOST_LISTED: Final = 5
"""Limit on the principals in an error text."""

_VERSION: Final = b"\x05\x02"
_DAMAGED: Final = "is damaged; export it again, as with samba-tool domain exportkeytab or ktpass"


class KeytabError(MsmqError):
    """A keytab cannot be used; the text has the reason and the remedy."""


def principals_of(data: bytes) -> tuple[str, ...]:
    """The distinct principals of a keytab, in order; C{/} and C{@} within a name are escaped.

    @raise KeytabError: it is not a keytab, or is damaged.
    """
    if data[:2] != _VERSION:
        raise KeytabError("is not a keytab of version 2, which begins with the bytes 05 02")
    found: dict[str, None] = {}
    offset = 2
    try:
        while offset < len(data):
            (size,) = struct.unpack_from(">i", data, offset)
            offset += 4
            if size == 0:
                break
            if offset + abs(size) > len(data):
                raise KeytabError(_DAMAGED)
            # A negative size marks the space of a deleted entry.
            if size > 0:
                found[_principal(data[offset : offset + size])] = None
            offset += abs(size)
    except (struct.error, UnicodeDecodeError) as error:
        raise KeytabError(_DAMAGED) from error
    return tuple(found)


def choose_principal(found: tuple[str, ...], wanted: str) -> str:
    """Choose the principal to use.

    @param wanted: C{NAME@REALM}, or C{NAME} if it is in one realm only; empty for the only principal.
    @raise KeytabError: no principal matches, or more than one.
    """
    if not found:
        raise KeytabError("has no key; export it again")
    fitting = [each for each in found if wanted in ("", each, each.rpartition("@")[0])]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join((fitting or found)[:MOST_LISTED])
    more = len(fitting or found) - MOST_LISTED
    listed += f" and {more} more" if more > 0 else ""
    if not fitting:
        raise KeytabError(f"has no key of the principal {wanted}; it has {listed}")
    raise KeytabError(f"has keys of {listed}; set principal to one of them")


def read_principal(path: Path, wanted: str) -> str:
    """Read a keytab file, and choose the principal to use.

    @raise KeytabError: the file cannot be read, or has no such principal.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_KEYTAB + 1)
    except OSError as error:
        raise KeytabError(f"keytab {path}: {error.strerror}") from error
    try:
        if len(data) > LONGEST_KEYTAB:
            raise KeytabError(f"has more than {LONGEST_KEYTAB} bytes")
        return choose_principal(principals_of(data), wanted)
    except KeytabError as error:
        raise KeytabError(f"keytab {path} {error}") from error


def _principal(entry: bytes) -> str:
    (count,) = struct.unpack_from(">H", entry, 0)
    offset, parts = 2, []
    for _ in range(count + 1):
        (length,) = struct.unpack_from(">H", entry, offset)
        offset += 2
        if offset + length > len(entry):
            raise KeytabError(_DAMAGED)
        parts.append(_escaped(entry[offset : offset + length].decode()))
        offset += length
    realm, *names = parts
    if not realm or not names:
        raise KeytabError(_DAMAGED)
    return f"{'/'.join(names)}@{realm}"


def _escaped(part: str) -> str:
    if not part.isprintable():
        raise KeytabError(_DAMAGED)
    return part.replace("\\", "\\\\").replace("/", "\\/").replace("@", "\\@")
