"""The resource by which readers on other machines read the store."""

from __future__ import annotations

import math
from typing import Any, Final
from uuid import UUID

from klein import Klein

from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, refuse_rest
from msmq.control.server.http.responses import encoded_answer, json_answer
from msmq.control.server.messages.properties import shown, text
from msmq.control.server.resources.context import ResourceContext
from msmq.interfaces.stored_rows import (
    COUNT_ARGUMENT,
    FLAG_ARGUMENT,
    LIMIT_ARGUMENT,
    NUMBER_ARGUMENT,
    OPTIONAL,
    STORE_CALLS,
    TIME_ARGUMENT,
    UUIDS_ARGUMENT,
    IStoredRows,
)

ARROW: Final = "application/vnd.apache.arrow.stream"
"""The type of an answer that has rows."""
MOST_QUEUES: Final = 10_000
"""Limit on the queues that one call names."""

NUMBERS: Final = {
    NUMBER_ARGUMENT: (0, 1 << 64),
    COUNT_ARGUMENT: (1, (1 << 31) - 1),
    LIMIT_ARGUMENT: (0, 1 << 53),
}
"""The ranges of the kinds of numbers."""


class StoredRowResources:
    """The rows of queues, message logs and the event log, page by page."""

    app = Klein()

    def __init__(self, context: ResourceContext, rows: IStoredRows) -> None:
        self._context = context
        self._rows = rows

    @app.route("/v1/store", methods=["POST"])
    async def ask(self, request: ControlRequest) -> bytes:
        """Answer one call of a reader; nothing is changed."""
        wanted = self._context.document(request, self._context.limits.store_call)
        call = text("call", wanted.pop("call", None))
        kinds = STORE_CALLS.get(call)
        if kinds is None:
            raise invalid(f"call is one of {', '.join(STORE_CALLS)}, not {shown(call)}")
        arguments = {name: _argument(name, kind, wanted.pop(name, None)) for name, kind in kinds.items()}
        refuse_rest(wanted, ", ".join(("call", *kinds)))
        answer = await running(self._rows.ask(call, arguments))
        if answer.rows is None:
            return json_answer(request, {"value": answer.value})
        return encoded_answer(request, answer.rows, content_type=ARROW)


def _argument(name: str, kind: str, value: Any) -> Any:
    """Check the argument of a call.

    @raise MQError: it is not of this kind.
    """
    if kind.endswith(OPTIONAL):
        return None if value is None else _argument(name, kind.removesuffix(OPTIONAL), value)
    if kind == FLAG_ARGUMENT:
        if not isinstance(value, bool):
            raise invalid(f"{name} is true or false, not {shown(value)}")
        return value
    if kind in NUMBERS:
        least, most = NUMBERS[kind]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise invalid(f"{name} is a whole number from {least} to {most}, not {shown(value)}")
        return value
    if kind == TIME_ARGUMENT:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise invalid(f"{name} is a number of seconds since 1970-01-01 UTC, not {shown(value)}")
        return float(value)
    if kind == UUIDS_ARGUMENT:
        if not isinstance(value, list) or len(value) > MOST_QUEUES:
            raise invalid(f"{name} is a list of at most {MOST_QUEUES} GUIDs, not {shown(value)}")
        return [_guid(name, one) for one in value]
    return _guid(name, value)


def _guid(name: str, value: Any) -> UUID:
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError:
        raise invalid(f"{name} is a GUID, not {shown(value)}") from None
