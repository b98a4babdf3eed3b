"""Attrs values of a queue manager as JSON objects: the keys are the field names, in order."""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.decoding.values import unix_time
from msmq.interfaces.manager.access_summaries import AccessEntry, AccessVerdict, CertificateSummary
from msmq.interfaces.manager.summaries import ManagerStatus, SessionSummary
from msmq.queues.outgoing import ConnectionHistoryEntry
from msmq.wire.guid import format_guid

_LEFT_OUT: Final[Mapping[type, Sequence[str]]] = {
    ManagerStatus: ("directory_differences",),
    AccessEntry: ("inherited", "inherit_only"),
    AccessVerdict: ("unauthenticated", "demanded"),
}
"""Keys that are omitted if the field is C{None}."""


def json_record(value: Any) -> dict[str, Any]:
    """Convert an attrs value to the dictionary of its JSON object.

    GUIDs and times are text, as everywhere in the control API.
    """
    record: dict[str, Any] = {}
    left_out = _LEFT_OUT.get(type(value), ())
    for field in attrs.fields(type(value)):
        part = getattr(value, field.name)
        if part is None and field.name in left_out:
            continue
        record[field.name] = unix_time(part) if "time" in field.metadata else _json_value(part)
    match value:
        case SessionSummary():
            return _flat(record, "statistics")
        case AccessEntry(is_conditional=False):
            del record["condition"]
        case CertificateSummary():
            record["certificate_base64"] = record.pop("certificate")
        case ConnectionHistoryEntry():
            record["status"] = value.status.document_name
    return record


_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
"""Types of most fields, whose values are those of JSON."""


def _json_value(value: object) -> Any:
    if value.__class__ in _PLAIN:
        return value
    match value:
        case UUID():
            return format_guid(value)
        case bytes():
            return base64.b64encode(value).decode()
        case enum.Enum():
            return value.value
        case str():
            return value
        case Mapping():
            return {name: _json_value(part) for name, part in value.items()}
        case Sequence():
            return [_json_value(part) for part in value]
    return json_record(value) if attrs.has(type(value)) else value


def _flat(record: Mapping[str, Any], nested: str) -> dict[str, Any]:
    """Replace a nested object by its keys."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat.update(value if name == nested else {name: value})
    return flat
