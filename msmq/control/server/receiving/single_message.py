"""Send and receive one message in one HTTP request and response."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from msmq.control.protocol.refusals import not_acceptable
from msmq.control.server.http.admission import while_admitted
from msmq.control.server.http.disconnection import next_reactor_turn, shielded
from msmq.control.server.http.responses import JSON, ResponseStream, to_json
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.control.server.receiving.receipts import Receipts
from msmq.control.server.receiving.receive_stream import ActiveReceives, ReceiveRequest
from msmq.decoding.values import plain_text
from msmq.interfaces.manager.received_messages import ReceivedMessage

RAW: Final = "application/octet-stream"

_PIECE: Final = 0x10000
_TRIPLETS: Final = 0x3000 * 3
_LONGEST_HEADER: Final = 0x2000
_PLAIN: Final = "!#$&'()*+,/:;=?@[]{}|\\\"<>^`~-._"


def property_headers(properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties as headers: C{body_type} as C{Msmq-Body-Type}, and so on.

    Characters that a header cannot hold, and the percent sign, are percent-encoded as UTF-8; a list is joined
    with commas; C{None} is omitted; an object is JSON.
    """
    headers = {}
    for key, value in properties.items():
        if value is None:
            continue
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, list):
            text = ",".join(map(str, value))
        elif isinstance(value, dict):
            text = json.dumps(value, separators=(",", ":"))
        else:
            text = quote(str(value), safe=_PLAIN, errors="surrogatepass")
        headers["Msmq-" + key.replace("_", "-").title()] = text
    return headers


def _raw(message: ReceivedMessage) -> tuple[dict[str, str], Iterator[bytes]]:
    headers = property_headers(properties_of(message))
    longest = max(headers, key=lambda name: len(headers[name]))
    if len(headers[longest]) > _LONGEST_HEADER:
        raise not_acceptable(f"{longest} is too long for a header; request the message with Accept: {JSON}")
    body = message.view.body
    return headers, (bytes(body[start : start + _PIECE]) for start in range(0, len(body), _PIECE))


def _whole(message: ReceivedMessage) -> Iterator[bytes]:
    """The message in JSON, its body last and in parts, since 4 MiB at once would block the reactor."""
    yield to_json(properties_of(message))[:-1] + b","
    body = message.view.body
    is_text = True
    for part in _characters(body):
        is_text = is_text and plain_text(part) is not None
        yield b""
    if is_text:
        yield b'"body":"'
        for part in _characters(body):
            yield to_json(str(part, "utf-8"))[1:-1]
    else:
        yield b'"body_base64":"'
        for start in range(0, len(body), _TRIPLETS):
            yield b64encode(body[start : start + _TRIPLETS])
    yield b'"}\n'


def _characters(body: memoryview) -> Iterator[memoryview]:
    """Divide the body into parts that end at UTF-8 character boundaries where possible."""
    start = 0
    while start < len(body):
        end = start + _PIECE
        while start < end < len(body) and body[end] & 0xC0 == 0x80:
            end -= 1
        end = end if end > start else start + _PIECE
        yield body[start:end]
        start = end


async def receive_one(
    receiving: ActiveReceives, clock: IReactorTime, request: Request, wanted: ReceiveRequest, as_json: bool
) -> None:
    """Answer with one message, and remove it once the response is written.

    The caller cannot confirm, so a message is lost if the caller fails before it has read the end of the
    response; the response ends (with its last chunk) only after the message is durably removed. The message
    returns to the queue, and the response is aborted, if the connection breaks before or the removal fails.

    @raise MQError: before the response has begun.
    """
    end = receiving.begin()
    receipts = Receipts()
    response = ResponseStream(request, JSON if as_json else RAW)
    try:
        reservation = await while_admitted(response, receiving.reserve(wanted, 1, response), clock)
        receipt = receipts.hold(reservation, 1)
        response.check_caller()
        message = reservation.messages[0]
        headers, parts = ({}, _whole(message)) if as_json else _raw(message)
        for name, value in headers.items():
            request.setHeader(name.encode("ascii"), value.encode("ascii"))
        try:
            response.open()
            for part in parts:
                response.write(part)
                await next_reactor_turn(clock)
                await response.drained()
            # After another reactor iteration the kernel has the rest, or the broken connection is detected.
            await next_reactor_turn(clock)
            await shielded(receipts.confirm(receipt))
        finally:
            response.close()
    finally:
        receiving.delivered(response)
        receipts.close()
        end()
