"""Resources that send and receive: one message in a request and response, and streams of records."""

from __future__ import annotations

from typing import Final

import attrs
from klein import Klein
from twisted.internet.defer import Deferred

from msmq.control.protocol.refusals import MethodNotAllowed
from msmq.control.server.http.channel import wanted_protocol
from msmq.control.server.http.disconnection import shielded
from msmq.control.server.http.requests import (
    ControlRequest,
    parameters,
    raw_body,
    record_body,
    refuse_rest,
    take,
    wants_json,
)
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.properties import flag, number, read_key, read_message, seconds
from msmq.control.server.receiving.receive_stream import ActiveReceives, ReceiveRequest
from msmq.control.server.receiving.single_message import receive_one
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.sending.send_connection import SendConnection

_GET_DEPRECATED: Final = b"@1796083200"
"""The header of a GET that receives: since 2026-12-01 (RFC 9745)."""


class SendReceiveResources:
    """Sending to destinations, and receiving from queues."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._manager = context.manager
        self._receiving = ActiveReceives(context.manager, context.limits, context.clock, context.memory)

    @app.route("/v1/messages", methods=["POST"])
    async def send_one(self, request: ControlRequest) -> bytes:
        """Send the body as one message."""
        properties = parameters(request)
        destination = take(properties, "destination")
        key = read_key(properties.pop("key", None))
        body = raw_body(request, self._context.limits.request_body)
        is_recoverable = key is not None and self._manager.is_durable
        message = read_message(properties, body, is_recoverable=is_recoverable)
        [identifier] = await shielded(self._manager.send(destination, [message], keys=[key]))
        return json_answer(request, {"id": str(identifier)}, 201)

    @app.route("/v1/messages/receive", methods=["POST"])
    async def receive_one(self, request: ControlRequest) -> None:
        """Receive one message."""
        found = parameters(request)
        wanted = ReceiveRequest(take(found, "queue"), 1, _timeout(found), False)
        refuse_rest(found, "queue and timeout")
        await receive_one(self._receiving, self._context.clock, request, wanted, wants_json(request))

    @app.route("/v1/messages", methods=["GET"])
    async def peek_one(self, request: ControlRequest) -> None:
        """Peek at one message; without C{peek=true} it is received, which is deprecated.

        A GET may be repeated by each program between the client and the server (RFC 9110, 9.2).
        """
        found = parameters(request)
        if request.method == b"HEAD":
            raise MethodNotAllowed("HEAD", "/v1/messages", ["GET", "POST"])
        wanted = _receive_request(found, 1)
        if not wanted.peek:
            request.responseHeaders.setRawHeaders(b"deprecation", [_GET_DEPRECATED])
        await receive_one(self._receiving, self._context.clock, request, wanted, wants_json(request))

    @app.route("/v1/send", methods=["POST"])
    async def send(self, request: ControlRequest) -> None:
        """Complete the stream of records in the body; most of it is already sent."""
        await record_body(request).answer(request)

    @app.route("/v1/send", methods=["GET"])
    async def send_upgraded(self, request: ControlRequest) -> None:
        """Send the records that arrive on the connection from now on."""
        _check_upgrade(request, "/v1/send")
        found = parameters(request)
        is_import = flag("import", found.pop("import", "false"))
        stops = flag("stop_at_refusal", found.pop("stop_at_refusal")) if "stop_at_refusal" in found else None
        refuse_rest(found, "import and stop_at_refusal")
        context = self._context
        caller = request.caller
        sending = SendConnection(
            request, context.manager, context.limits, context.clock, stops_at_refusal=stops
        )
        try:
            await sending.run()
        finally:
            if is_import and sending.accepted_by_destination:
                context.audit.record_import(caller, sending.accepted_by_destination)
        await Deferred()

    @app.route("/v1/receive", methods=["GET"])
    async def receive_upgraded(self, request: ControlRequest) -> None:
        """Receive on a connection on which the client also confirms."""
        _check_upgrade(request, "/v1/receive")
        await self._receiving.upgraded(request, _stream_request(request))
        await Deferred()

    @app.route("/v1/receive", methods=["POST"])
    async def receive(self, request: ControlRequest) -> None:
        """Receive as a stream of records."""
        await self._receiving.stream(request, _stream_request(request))

    @app.route("/v1/receipts/<stream>/<receipt>", methods=["POST"])
    async def confirm(self, request: ControlRequest, stream: str, receipt: str) -> bytes:
        """Confirm the messages of one receipt."""
        return json_answer(request, {"confirmed": await self._receiving.confirm(stream, receipt)})


def _receive_request(found: dict[str, str], count: int) -> ReceiveRequest:
    wanted = ReceiveRequest(
        take(found, "queue"),
        count,
        _timeout(found),
        flag("peek", found.pop("peek", "false")),
    )
    refuse_rest(found, "queue, timeout and peek")
    return wanted


def _timeout(found: dict[str, str]) -> float | None:
    return seconds("timeout", found.pop("timeout")) if "timeout" in found else None


def _stream_request(request: ControlRequest) -> ReceiveRequest:
    found = parameters(request)
    count = number("count", found.pop("count", "1"))
    transactional = flag("transactional", found.pop("transactional", "false"))
    return attrs.evolve(_receive_request(found, count), transactional=transactional)


def _check_upgrade(request: ControlRequest, path: str) -> None:
    """Check that a GET requests an upgrade to records in both directions.

    @raise MethodNotAllowed: the request has no such upgrade.
    """
    if request.method != b"GET" or wanted_protocol(request) is None:
        raise MethodNotAllowed(request.method.decode("ascii", "replace"), path, ["POST"])
