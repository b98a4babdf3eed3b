"""The parameters, bodies and responses of every route of the control API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.control.protocol.records import CONTENT_TYPE as RECORDS
from msmq.control.server.alarms.alarm_resources import MOST_ALARMS
from msmq.control.server.alarms.manager_alarms import AlarmReport
from msmq.control.server.description.operation import OCTETS, ApiOperation
from msmq.control.server.description.schemas import (
    FLAG,
    GUID,
    JSON_FLAG,
    JSON_NUMBER,
    NUMBER,
    OBJECT,
    QUERY_FLAG,
    SECONDS,
    TEXT,
    Schema,
    answer,
    array,
    choice,
    nullable,
    record_schema,
    request,
)
from msmq.control.server.http.responses import JSON, JSON_LINES
from msmq.control.server.live.event_stream import EVENT_STREAM
from msmq.control.server.messages.properties import ACKNOWLEDGE, PRIVACY_LEVELS
from msmq.control.server.resources.live_stream import TOPICS
from msmq.control.server.resources.stored_rows import ARROW, NUMBERS
from msmq.control.server.server_configuration import ConfigurationReport, ReloadPreview
from msmq.interfaces.archive import ArchiveSummary, ErasedRows
from msmq.interfaces.bridges import BridgeRouteSummary
from msmq.interfaces.drains import DrainSummary
from msmq.interfaces.manager.access_summaries import AccessList, CertificateSummary
from msmq.interfaces.manager.summaries import (
    ManagerStatus,
    OutgoingQueueSummary,
    QueueSummary,
    QuotaSummary,
    TransactionSummary,
)
from msmq.interfaces.shadows import CopiedMessage, ShadowSummary
from msmq.interfaces.stored_rows import (
    FLAG_ARGUMENT,
    OPTIONAL,
    STORE_CALLS,
    TIME_ARGUMENT,
    UUID_ARGUMENT,
    UUIDS_ARGUMENT,
)

_QUEUE: Final = "/v1/queues/<path:path>"
_OUTGOING: Final = "/v1/outgoing/<path:name>"
_DRAIN: Final = "/v1/drains/<path:path>"
_SHADOW: Final = "/v1/shadows/<path:path>"
_CERTIFICATE: Final = "/v1/certificates/<fingerprint>"

_WHERE: Final[Schema] = {"type": "string", "maxLength": 2000, "description": "a JMESPath expression"}
_WORDS: Final[Schema] = {"type": "string", "maxLength": 1000}
_LINES: Final[Schema] = {"type": "string", "description": "JSON objects, one a line"}
_RECORDS: Final[Schema] = {"type": "string", "format": "binary", "description": "a stream of records"}
_ANY: Final[Schema] = {"type": "string", "format": "binary"}
_PROPERTIES: Final[Mapping[str, Schema]] = {
    "journal": JSON_FLAG,
    "log": JSON_FLAG,
    "log_age": nullable(JSON_NUMBER),
    "log_size": nullable(JSON_NUMBER),
    "quota": nullable(JSON_NUMBER),
    "journal_quota": nullable(JSON_NUMBER),
    "label": TEXT,
    "authenticate": JSON_FLAG,
    "privacy": choice("none", "optional", "body"),
}
_SELECTION: Final[Mapping[str, Schema]] = {
    "lookup_ids": nullable(array(JSON_NUMBER)),
    "where": nullable(_WHERE),
    "body": nullable(TEXT),
    "after": nullable(JSON_NUMBER),
    "limit": nullable(JSON_NUMBER),
    "all": JSON_FLAG,
    "dry_run": JSON_FLAG,
}
_UUID: Final[Schema] = {"type": "string", "format": "uuid"}
_ARGUMENTS: Final[Mapping[str, Schema]] = {
    UUID_ARGUMENT: _UUID,
    UUIDS_ARGUMENT: array(_UUID),
    TIME_ARGUMENT: {"type": "number"},
    FLAG_ARGUMENT: {"type": "boolean"},
    **{
        kind: {"type": "integer", "minimum": least, "maximum": most}
        for kind, (least, most) in NUMBERS.items()
    },
}


def _store_call(call: str, kinds: Mapping[str, str]) -> Schema:
    """The body of one call of a remote reader."""
    properties = {
        name: nullable(_ARGUMENTS[kind.removesuffix(OPTIONAL)])
        if kind.endswith(OPTIONAL)
        else _ARGUMENTS[kind]
        for name, kind in kinds.items()
    }
    required = [name for name, kind in kinds.items() if not kind.endswith(OPTIONAL)]
    return request("call", *required, call=choice(call), **properties)


_MESSAGE: Final[Mapping[str, Schema]] = {
    "label": TEXT,
    "body_type": NUMBER,
    "priority": {"type": "integer", "minimum": 0, "maximum": 7},
    "delivery": choice("express", "recoverable"),
    "transactional": QUERY_FLAG,
    "time_to_reach_queue": NUMBER,
    "time_to_be_received": NUMBER,
    "journal": QUERY_FLAG,
    "dead_letter": QUERY_FLAG,
    "dead_letter_queue": TEXT,
    "acknowledge": {"type": "string", "description": f"of {', '.join(ACKNOWLEDGE)}, with commas"},
    "admin_queue": TEXT,
    "response_queue": TEXT,
    "correlation_id": TEXT,
    "application_tag": {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF},
    "extension_base64": {"type": "string", "contentEncoding": "base64"},
    "trace": GUID,
    "privacy_level": choice(*PRIVACY_LEVELS),
    "sign": choice("1.0", "2.0", "3.0"),
    "hash": TEXT,
    "certificate": TEXT,
}
_RECEIVE_ONE: Final[Mapping[str, Schema]] = {"queue": TEXT, "timeout": SECONDS}
_RECEIVE: Final[Mapping[str, Schema]] = {**_RECEIVE_ONE, "peek": QUERY_FLAG}
_STREAM: Final[Mapping[str, Schema]] = {**_RECEIVE, "count": NUMBER, "transactional": QUERY_FLAG}
_IDENTIFIERS: Final[Mapping[str, Schema]] = {"after": NUMBER, "count": NUMBER}
_HOP: Final = request(next_hop=TEXT, all=JSON_FLAG)
_ENTRY: Final = request(
    "action", "principal", action=choice("allow", "deny"), principal=TEXT, rights=array(TEXT)
)


def _one(kind: type) -> ApiOperation:
    return ApiOperation(answers={JSON: record_schema(kind)})


def _many(kind: type) -> ApiOperation:
    return ApiOperation(answers={JSON: array(record_schema(kind))})


def _selects(**keys: Schema) -> ApiOperation:
    required = [name for name in keys if name in ("queue", "destination")]
    body = request(*required, **_SELECTION, **keys)
    return ApiOperation(body=body, answers={JSON_LINES: _LINES})


_PURGE: Final = ApiOperation(
    query={"progress": QUERY_FLAG}, answers={JSON: answer(purged=NUMBER), JSON_LINES: _LINES}
)

OPERATIONS: Final[Mapping[tuple[str, str], ApiOperation]] = {
    ("GET", "/v1/openapi.json"): ApiOperation(answers={JSON: answer("openapi", "info", "paths")}),
    ("GET", "/v1/status"): _one(ManagerStatus),
    ("GET", "/v1/stream"): ApiOperation(
        query={
            "topics": {"type": "string", "description": f"of {', '.join(TOPICS)}, with commas"},
            "queue": TEXT,
            "outgoing": TEXT,
            "after": NUMBER,
            "where": _WHERE,
            "event": _WORDS,
            "event_queue": _WORDS,
            "event_text": _WORDS,
        },
        repeated=("queue", "outgoing"),
        answers={EVENT_STREAM: TEXT},
    ),
    ("GET", "/v1/configuration"): _one(ConfigurationReport),
    ("POST", "/v1/reload"): ApiOperation(answers={JSON: record_schema(ReloadPreview)}),
    ("POST", "/v1/identity/keep"): _one(ManagerStatus),
    ("GET", "/v1/quotas"): _one(QuotaSummary),
    ("PATCH", "/v1/quotas"): ApiOperation(
        body={
            **request(
                quota={"anyOf": [*JSON_NUMBER["anyOf"], {"type": "null"}, choice("configuration")]},
                journal_quota={"anyOf": [*JSON_NUMBER["anyOf"], {"type": "null"}, choice("configuration")]},
            ),
            "minProperties": 1,
        },
        answers={JSON: record_schema(QuotaSummary)},
    ),
    ("GET", "/v1/sessions"): ApiOperation(answers={JSON: array(OBJECT)}),
    ("GET", "/v1/sessions/<identifier>"): ApiOperation(answers={JSON: answer(identifier=TEXT, state=TEXT)}),
    ("POST", "/v1/sessions/<identifier>/close"): ApiOperation(
        answers={JSON: answer(identifier=TEXT, state=TEXT)}
    ),
    ("GET", "/v1/route"): ApiOperation(
        query={"source": TEXT, "destination": TEXT, "down": TEXT},
        required=("source", "destination"),
        answers={JSON: {}},
    ),
    ("GET", "/v1/topology"): ApiOperation(answers={JSON: {}}),
    ("GET", "/v1/control_servers"): ApiOperation(answers={JSON: array(answer("name", "endpoint", "source"))}),
    ("GET", "/v1/control_servers/<name>"): ApiOperation(answers={JSON: answer("name", "endpoint", "source")}),
    ("GET", "/v1/queues"): ApiOperation(
        query={"system": QUERY_FLAG}, answers={JSON: array(record_schema(QueueSummary))}
    ),
    ("POST", "/v1/queues"): ApiOperation(
        body=request(
            "path",
            path=TEXT,
            security=nullable(TEXT),
            application_type=nullable(GUID),
            transactional=nullable(JSON_FLAG),
            **{name: nullable(schema) for name, schema in _PROPERTIES.items()},
        ),
        answers={JSON: record_schema(QueueSummary)},
        status=201,
    ),
    ("GET", "/v1/public_queues"): ApiOperation(
        query={"label": TEXT, "type": GUID, "path": TEXT}, answers={JSON: array(OBJECT)}
    ),
    ("GET", _QUEUE): ApiOperation(answers={JSON: answer("log_extent", path=TEXT, messages=NUMBER)}),
    ("PATCH", _QUEUE): ApiOperation(
        body=request(**_PROPERTIES), needs_body=False, answers={JSON: record_schema(QueueSummary)}
    ),
    ("DELETE", _QUEUE): ApiOperation(query={"if_empty": QUERY_FLAG}, answers={JSON: answer(deleted=TEXT)}),
    ("POST", f"{_QUEUE}/pause"): _one(QueueSummary),
    ("POST", f"{_QUEUE}/resume"): _one(QueueSummary),
    ("POST", f"{_QUEUE}/purge"): _PURGE,
    ("POST", f"{_QUEUE}/replay"): ApiOperation(
        body=request(
            "into",
            **{
                "into": TEXT,
                "from": {"type": ["string", "integer", "null"]},
                "to": {"type": ["string", "integer", "null"]},
                "in_clear": JSON_FLAG,
            },
        ),
        answers={JSON: answer(replayed=NUMBER)},
    ),
    ("GET", f"{_QUEUE}/acl"): _one(AccessList),
    ("POST", f"{_QUEUE}/acl"): ApiOperation(
        body={
            "anyOf": [
                request(
                    "action",
                    "principal",
                    action=choice("allow", "deny", "revoke"),
                    principal=TEXT,
                    rights=array(TEXT),
                ),
                request("action", "sddl", action=choice("replace"), sddl=TEXT, dry_run=JSON_FLAG),
            ]
        },
        answers={JSON: record_schema(AccessList)},
    ),
    ("POST", "/v1/acl"): ApiOperation(
        body=request("entries", entries=array(_ENTRY)), answers={JSON: answer(sddl=TEXT)}
    ),
    ("POST", "/v1/store"): ApiOperation(
        body={"anyOf": [_store_call(call, kinds) for call, kinds in STORE_CALLS.items()]},
        answers={JSON: answer("value"), ARROW: _ANY},
    ),
    ("GET", f"{_QUEUE}/why"): ApiOperation(
        query={"principal": {**TEXT, "minLength": 1}, "right": {**TEXT, "minLength": 1}},
        required=("principal", "right"),
        answers={JSON: answer(granted=FLAG)},
    ),
    ("GET", f"{_QUEUE}/messages"): ApiOperation(
        query={
            "after": NUMBER,
            "limit": NUMBER,
            "bodies": QUERY_FLAG,
            "decode": QUERY_FLAG,
            "where": _WHERE,
            "body": TEXT,
        },
        answers={JSON_LINES: _LINES},
    ),
    ("GET", f"{_QUEUE}/messages/<int:lookup_id>"): ApiOperation(
        query={"decode": QUERY_FLAG, "raw": QUERY_FLAG}, answers={JSON: answer(id=TEXT, lookup_id=NUMBER)}
    ),
    ("POST", f"{_QUEUE}/messages/remove"): _selects(),
    ("POST", f"{_QUEUE}/messages/move"): _selects(queue=TEXT),
    ("POST", f"{_QUEUE}/messages/copy"): _selects(destination=TEXT, in_clear=JSON_FLAG),
    ("POST", f"{_QUEUE}/messages/requeue"): _selects(to=nullable(TEXT), message=nullable(OBJECT)),
    ("GET", "/v1/certificates"): _many(CertificateSummary),
    ("POST", "/v1/certificates"): ApiOperation(
        body={
            "anyOf": [
                request(sid=TEXT, name=TEXT, days=JSON_NUMBER, renew=JSON_FLAG),
                request(
                    "file_base64",
                    file_base64={"type": "string", "contentEncoding": "base64"},
                    password=nullable(TEXT),
                    sid=TEXT,
                ),
            ]
        },
        needs_body=False,
        answers={JSON: record_schema(CertificateSummary)},
        status=201,
    ),
    ("GET", _CERTIFICATE): _one(CertificateSummary),
    ("DELETE", _CERTIFICATE): _one(CertificateSummary),
    ("POST", f"{_CERTIFICATE}/publish"): _one(CertificateSummary),
    ("GET", "/v1/outgoing"): _many(OutgoingQueueSummary),
    ("POST", "/v1/outgoing/pause"): ApiOperation(body=_HOP, answers={JSON: array(OBJECT)}),
    ("POST", "/v1/outgoing/resume"): ApiOperation(body=_HOP, answers={JSON: array(OBJECT)}),
    ("POST", "/v1/outgoing/retry"): ApiOperation(answers={JSON: array(OBJECT)}),
    ("GET", _OUTGOING): _one(OutgoingQueueSummary),
    ("POST", f"{_OUTGOING}/pause"): _one(OutgoingQueueSummary),
    ("POST", f"{_OUTGOING}/resume"): _one(OutgoingQueueSummary),
    ("POST", f"{_OUTGOING}/retry"): _one(OutgoingQueueSummary),
    ("POST", f"{_OUTGOING}/purge"): _PURGE,
    ("POST", f"{_OUTGOING}/redirect"): ApiOperation(
        body=request("to", to=nullable(TEXT)), answers={JSON: record_schema(OutgoingQueueSummary)}
    ),
    ("GET", "/v1/alarms"): ApiOperation(
        query={"limit": {"type": "integer", "minimum": 0, "maximum": MOST_ALARMS}},
        answers={JSON: record_schema(AlarmReport)},
    ),
    ("GET", "/v1/deadletters"): ApiOperation(query={"limit": NUMBER}, answers={JSON: array(OBJECT)}),
    ("GET", "/v1/deadletters/groups"): ApiOperation(
        query={
            "by": {
                "type": "string",
                "pattern": "^(class|queue|label|source|reason)(,(class|queue|label|source|reason))*$",
            },
            "where": _WHERE,
        },
        required=("by",),
        answers={JSON_LINES: _LINES},
    ),
    ("POST", "/v1/deadletters/<path:message>/requeue"): ApiOperation(answers={JSON: answer(id=TEXT)}),
    ("GET", "/v1/events"): ApiOperation(
        query={
            "after": NUMBER,
            "tail": NUMBER,
            "follow": QUERY_FLAG,
            "where": _WHERE,
            "event": _WORDS,
            "queue": _WORDS,
            "text": _WORDS,
        },
        answers={JSON_LINES: _LINES},
    ),
    ("GET", "/v1/messages/<path:message>"): ApiOperation(answers={JSON: answer("message", "events")}),
    ("POST", "/v1/messages/<path:message>/move"): ApiOperation(
        body=request("queue", queue=TEXT), answers={JSON: answer(id=TEXT, queue=TEXT)}
    ),
    ("POST", "/v1/messages/receive"): ApiOperation(
        query=_RECEIVE_ONE, required=("queue",), answers={OCTETS: _ANY, JSON: answer(id=TEXT)}
    ),
    ("GET", "/v1/messages"): ApiOperation(
        query=_RECEIVE, required=("queue",), answers={OCTETS: _ANY, JSON: answer(id=TEXT)}
    ),
    ("POST", "/v1/messages"): ApiOperation(
        query={"destination": TEXT, "key": {"type": "string", "minLength": 1}, **_MESSAGE},
        required=("destination",),
        raw_body=OCTETS,
        answers={JSON: answer(id=TEXT)},
        status=201,
    ),
    ("GET", "/v1/send"): ApiOperation(
        query={"import": QUERY_FLAG, "stop_at_refusal": QUERY_FLAG}, answers={RECORDS: _RECORDS}, status=101
    ),
    ("POST", "/v1/send"): ApiOperation(raw_body=RECORDS, answers={JSON_LINES: _LINES}),
    ("GET", "/v1/receive"): ApiOperation(
        query=_STREAM, required=("queue",), answers={RECORDS: _RECORDS}, status=101
    ),
    ("POST", "/v1/receive"): ApiOperation(query=_STREAM, required=("queue",), answers={RECORDS: _RECORDS}),
    ("POST", "/v1/receipts/<stream>/<receipt>"): ApiOperation(answers={JSON: answer(confirmed=NUMBER)}),
    ("GET", "/v1/archive"): _one(ArchiveSummary),
    ("POST", "/v1/archive/compact"): _one(ArchiveSummary),
    ("POST", "/v1/archive/erase"): ApiOperation(
        body=request("where", where=TEXT, dry_run=JSON_FLAG),
        answers={JSON: answer(rows=array(record_schema(ErasedRows)))},
    ),
    ("GET", "/v1/bridges"): _many(BridgeRouteSummary),
    ("GET", "/v1/bridges/<name>"): _one(BridgeRouteSummary),
    ("POST", "/v1/bridges/<name>/pause"): _one(BridgeRouteSummary),
    ("POST", "/v1/bridges/<name>/resume"): _one(BridgeRouteSummary),
    ("POST", "/v1/bridges/<name>/test"): ApiOperation(
        query={"count": {"type": "integer", "minimum": 0, "maximum": 100}}, answers={JSON: array(OBJECT)}
    ),
    ("GET", "/v1/drains"): _many(DrainSummary),
    ("GET", _DRAIN): _one(DrainSummary),
    ("POST", _DRAIN): ApiOperation(
        body=request("destination", destination=TEXT, in_clear=JSON_FLAG, acknowledge_to=nullable(TEXT)),
        answers={JSON: record_schema(DrainSummary)},
    ),
    ("DELETE", _DRAIN): _one(DrainSummary),
    ("GET", f"{_DRAIN}/identifiers"): ApiOperation(
        query=_IDENTIFIERS, answers={JSON: answer(identifiers=array(TEXT))}
    ),
    ("GET", "/v1/shadows"): _many(ShadowSummary),
    ("GET", _SHADOW): _one(ShadowSummary),
    ("GET", f"{_SHADOW}/copies"): ApiOperation(
        query=_IDENTIFIERS, answers={JSON: answer(copies=array(record_schema(CopiedMessage)))}
    ),
    ("GET", f"{_QUEUE}/logged"): ApiOperation(
        query={**_IDENTIFIERS, "digests": QUERY_FLAG}, answers={JSON: array(OBJECT)}
    ),
    ("GET", "/v1/transactions"): _many(TransactionSummary),
    ("GET", "/v1/transactions/<identifier>"): ApiOperation(),
    ("POST", "/v1/transactions/<identifier>/abort"): ApiOperation(answers={JSON: answer(aborted=TEXT)}),
}
"""By method and route, as the API declares its routes."""
