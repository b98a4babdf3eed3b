"""Sending and receiving one message with nothing but an HTTP client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from msmq.control.receiving import Receipts, ReceiveRequest, Receiving
from msmq.control.refusals import not_acceptable
from msmq.control.responses import JSON, ResponseStream
from msmq.control.waiting import give_way, shielded
from msmq.decoding.message_json import message_json
from msmq.interfaces.queue_manager import ReceivedMessage

RAW: Final = "application/octet-stream"

_PIECE: Final = 0x10000
_LONGEST_HEADER: Final = 0x2000
_PLAIN: Final = "!#$&'()*+,/:;=?@[]{}|\\\"<>^`~-._"


def property_headers(properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties as headers: C{body_type} as C{Msmq-Body-Type}, and so on.

    Text that a header cannot hold, and the percent sign, are percent-encoded UTF-8; a list is joined with
    commas; C{None} is left out; an object is JSON.
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
    view = message.view
    properties = message_json(view, lookup_id=message.lookup_id, arrived=message.arrived, body=False)
    headers = property_headers(properties)
    longest = max(headers, key=lambda name: len(headers[name]))
    if len(headers[longest]) > _LONGEST_HEADER:
        raise not_acceptable(f"{longest} is too long for a header; ask with Accept: {JSON}")
    body = view.body
    return headers, (bytes(body[start : start + _PIECE]) for start in range(0, len(body), _PIECE))


def _whole(message: ReceivedMessage) -> Iterator[bytes]:
    properties = message_json(message.view, lookup_id=message.lookup_id, arrived=message.arrived)
    for part in json.JSONEncoder(separators=(",", ":")).iterencode(properties):
        for start in range(0, len(part), _PIECE):
            yield part[start : start + _PIECE].encode("ascii")
    yield b"\n"


async def receive_one(
    receiving: Receiving, clock: IReactorTime, request: Request, wanted: ReceiveRequest, as_json: bool
) -> None:
    """Answer with one message, and remove it once the answer is written.

    The caller cannot confirm, so that a message is lost if it dies with the end of the answer unread;
    the answer ends (its last chunk comes) only after the message is removed for good.
    It goes back if the connection breaks before, or if it cannot be removed; the answer is cut then.

    @raise MQError: before the answer has begun.
    """
    end = receiving.begin()
    receipts = Receipts()
    try:
        reservation = await receiving.reserve(wanted, 1)
        receipt = receipts.hold(reservation)
        message = reservation.messages[0]
        headers, parts = ({}, _whole(message)) if as_json else _raw(message)
        for name, value in headers.items():
            request.setHeader(name.encode("ascii"), value.encode("ascii"))
        response = ResponseStream(request, JSON if as_json else RAW)
        try:
            response.open()
            response.check()
            for part in parts:
                response.write(part)
                await give_way(clock)
                await response.drained()
            # After another turn the rest is in the hands of the system, or the break has shown.
            await give_way(clock)
            await shielded(receipts.confirm(receipt))
        finally:
            response.close()
    finally:
        receipts.close()
        end()
