"""Resources about shadows, and the message logs that they compare."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

from klein import Klein

from msmq.control.server.http.disconnection import running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import json_answer, json_stream
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, number
from msmq.control.server.resources.context import ResourceContext, without_parameters
from msmq.decoding.values import unix_time
from msmq.interfaces.manager.received_messages import LoggedMessage
from msmq.interfaces.shadows import IShadows
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import guid_from_bytes

MOST_LOGGED = 1000
"""Limit on messages of one answer."""

_PAGE = "1000"
_PART = 20
"""Messages that are in memory at the same time."""


class ShadowResources:
    """Queues whose messages are copied to a second consumer."""

    app = Klein()

    def __init__(self, context: ResourceContext, shadows: IShadows) -> None:
        self._context = context
        self._shadows = shadows

    @app.route("/v1/shadows", methods=["GET"])
    async def shadows(self, request: ControlRequest) -> bytes | None:
        """All shadows."""
        without_parameters(request)
        return await self._context.listed(request, self._shadows.summaries())

    @app.route("/v1/shadows/<path:path>", methods=["GET"])
    def shadow(self, request: ControlRequest, path: str) -> bytes:
        """The shadow of one queue."""
        without_parameters(request)
        return json_answer(request, json_record(self._shadows.summary(path)))

    @app.route("/v1/shadows/<path:path>/copies", methods=["GET"])
    def copies(self, request: ControlRequest, path: str) -> bytes:
        """Messages and their copies, without the first C{after}."""
        after, count = _page(request)
        found = self._shadows.copies(path, after, count)
        return json_answer(request, {"copies": [json_record(each) for each in found]})

    @app.route("/v1/queues/<path:path>/logged", methods=["GET"])
    async def logged(self, request: ControlRequest, path: str) -> bytes | None:
        """The messages in the message log of one queue, after the sequence number C{after}."""
        found = parameters(request)
        after, count = number("after", found.pop("after", "0")), number("count", found.pop("count", _PAGE))
        with_digests = flag("digests", found.pop("digests", "false"))
        refuse_rest(found, "after, count and digests")
        messages = self._messages(path, after, min(count, MOST_LOGGED), with_digests)
        return await json_stream(request, messages, self._context.clock)

    async def _messages(
        self, path: str, after: int, count: int, with_digests: bool
    ) -> AsyncIterator[dict[str, Any]]:
        """Read in small parts, since each message may have megabytes."""
        inspection = self._context.manager.inspection
        while count > 0:
            found = await running(inspection.logged(path, after, min(count, _PART)))
            for each in found:
                yield _record(each, with_digests)
            if len(found) < _PART:
                return
            after = found[-1].sequence
            count -= len(found)


def _record(logged: LoggedMessage, with_digests: bool) -> dict[str, Any]:
    """What is compared of a message; C{digest} is of everything that a consumer writes into it."""
    view = logged.view
    correlation = view.correlation_id
    return {
        "sequence": logged.sequence,
        "id": str(view.identifier),
        "correlation_id": str(
            MessageIdentifier(guid_from_bytes(correlation[:16]), int.from_bytes(correlation[16:], "little"))
        ),
        "label": view.label,
        "arrived_time": unix_time(logged.arrived),
        "arrived": logged.arrived,
        "body_size": view.body_size,
        "body_digest": sha256(view.body).hexdigest() if with_digests else None,
        "digest": _digest(view) if with_digests else None,
    }


def _digest(view: UserMessageView) -> str:
    digest = sha256()
    for part in (view.label.encode("utf-8", "surrogatepass"), view.extension, view.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    digest.update(b"%d %d %d" % (view.body_type, view.application_tag, view.message_class))
    return digest.hexdigest()


def _page(request: ControlRequest) -> tuple[int, int]:
    found = parameters(request)
    after, count = number("after", found.pop("after", "0")), number("count", found.pop("count", _PAGE))
    refuse_rest(found, "after and count")
    return after, count
