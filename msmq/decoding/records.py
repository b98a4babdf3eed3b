"""The lines that C{msmq decode} prints, as JSON objects.

There are three kinds: a packet (key C{packet}), a malformed packet (key C{rule}) and a note (key
C{note}) about bytes that are not there or belong to no packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msmq.errors import RemoteProtocolError

Record: TypeAlias = dict[str, object]
"""One line; its values are those that L{json} can write."""


def malformed_record(offset: int, error: RemoteProtocolError) -> Record:
    """The line for a packet that breaks a rule.

    @param offset: where the packet begins within its stream or file.
    """
    return {
        "offset": offset,
        "header": error.header,
        "field": error.field,
        "field_offset": error.offset,
        "section": error.section,
        "rule": error.rule,
    }


def note_record(offset: int, note: str, skipped: int) -> Record:
    """The line that says why C{skipped} bytes from C{offset} on are not decoded."""
    return {"offset": offset, "note": note, "skipped": skipped}


def is_malformed(record: Mapping[str, object]) -> bool:
    """Whether the line reports a broken rule, so that C{msmq decode} ends with status 1."""
    return "rule" in record
