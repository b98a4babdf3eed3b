"""Messages of a queue: the list, the properties of one, and its body."""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import Any, Final

import attrs
from klein import Klein
from twisted.web.server import Request

from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import refuse_rest, take
from msmq.control.server.messages.properties import number
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.control.server.resources.message_search import PAGE, MessageDescriber, MessageSearch
from msmq.decoding.values import plain_text
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.structures.status import MQError
from msmq.web.access.request import WebRequest
from msmq.web.console.packet_dump import PacketDump, dump_packet
from msmq.web.console.pages.context import TURN, PageContext, check_caller, page_parameters
from msmq.web.console.presentation import HexRow, hex_rows
from msmq.web.console.rendering import protect

LISTED: Final = 50
"""Messages on one page."""

LOOKED_AT: Final = 20_000
"""Messages that one request searches; the page offers to continue after them."""

SHOWN_TEXT: Final = 0x10000
"""Characters of a body that the page shows; the whole body can be downloaded."""

SHOWN_BYTES: Final = 0x1000
"""Bytes of a body in the hex dump."""

_LONGEST_CHARACTER: Final = 4
"""Bytes of a character in UTF-8."""


@attrs.frozen
class MessageList:
    """Messages that a search found.

    @ivar after: the LookupIdentifier after which the search continues; C{None} at the end of the queue.
    @ivar not_compared: messages on which the expression failed, and C{reason} of the first failure.
    """

    messages: Sequence[dict[str, Any]]
    unreadable: dict[int, str]
    looked_at: int
    after: int | None
    not_compared: int
    reason: str


@attrs.frozen
class ShownMessage:
    """One message with its body in all forms.

    @ivar decoded: the decoded body as JSON, indented; C{None} if no decoder applies.
    @ivar text: the body as text; C{None} if it is binary.
    """

    properties: dict[str, Any]
    decoded: str | None
    decode_error: str | None
    text: str | None
    hex: Sequence[HexRow]
    is_cut: bool
    packet: PacketDump


class MessagePages:
    """Messages in queues, browsed without receiving them."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._describer = MessageDescriber()

    @app.route("/messages", methods=["GET"])
    async def messages(self, request: WebRequest) -> bytes:
        """A page of messages of C{queue}, filtered by C{where} and C{body}; with C{id} also that message."""
        found = page_parameters(request)
        path = take(found, "queue")
        after = number("after", found.pop("after")) if "after" in found else -1
        where, body = found.pop("where", ""), found.pop("body", "")
        selected = number("id", found.pop("id")) if "id" in found else None
        refuse_rest(found, "queue, after, where, body and id")
        wanted = MessageFilter(where or None, body or None)
        listed = await self._search(request, path, after, wanted)
        message = None
        if selected is not None:
            found_message = await running(self._inspection.read_message(path, selected))
            await self._context.pause()
            message = await self._shown(found_message)
        await self._context.pause()
        return await self._context.page(
            request,
            "messages",
            path=path,
            where=where,
            body=body,
            position=None if after < 0 else after,
            listed=listed,
            selected=selected,
            message=message,
            listed_at_most=LISTED,
            in_queue=self._number_of_messages(path),
        )

    @app.route("/body", methods=["GET"])
    async def body(self, request: Request) -> bytes:
        """The body of the message C{id} in C{queue}, as a file."""
        found = page_parameters(request)
        path, lookup_id = take(found, "queue"), number("id", take(found, "id"))
        refuse_rest(found, "queue and id")
        message = await running(self._inspection.read_message(path, lookup_id))
        protect(request)
        request.setHeader(b"content-type", b"application/octet-stream")
        request.setHeader(b"content-disposition", b'attachment; filename="message-%d.bin"' % lookup_id)
        return bytes(message.view.body)

    def _number_of_messages(self, path: str) -> int | None:
        """Those of a local queue or an outgoing queue; C{None} if they are not counted, as in a journal."""
        try:
            return self._inspection.queue(path).messages
        except MQError:
            pass
        try:
            return self._inspection.outgoing_queue(path).messages
        except MQError:
            return None

    async def _search(self, request: WebRequest, path: str, after: int, wanted: MessageFilter) -> MessageList:
        share = self._context.evaluations.of(request.account)
        search = MessageSearch(
            self._describer, wanted, LISTED, with_body=False, is_decoded=False, share=share
        )
        clock = self._context.clock
        messages: list[dict[str, Any]] = []
        unreadable: dict[int, str] = {}
        looked_at = 0
        began = clock.seconds()
        while True:
            page = await running(self._inspection.browse(path, after=after, count=PAGE))
            unreadable |= page.unreadable
            await share.ready()
            check_caller(request)
            for message in search.matching(page):
                if message is not None:
                    messages.append(properties_of(message))
                if clock.seconds() - began >= TURN:
                    await next_reactor_turn(clock)
                    await share.ready()
                    # A page of slow comparisons takes minutes.
                    check_caller(request)
                    began = clock.seconds()
            looked_at += len(page.messages) + len(page.unreadable)
            after = page.last
            if search.is_over(page) or looked_at >= LOOKED_AT:
                break
        end = search.ended()
        is_end = end["end"] == "queue"
        return MessageList(
            messages,
            unreadable,
            end["looked_at"],
            None if is_end else end["after"],
            end.get("not_compared", 0),
            end.get("reason", ""),
        )

    async def _shown(self, message: ReceivedMessage) -> ShownMessage:
        """The forms of a body, one after the other: a large one costs some milliseconds in each."""
        body = message.view.body
        # A longer text is cut, and nothing else of it is shown.
        is_long = len(body) > _LONGEST_CHARACTER * SHOWN_TEXT
        described = self._describer.describe(message, with_body=not is_long, is_decoded=False)
        text = beginning_of_text(body, SHOWN_TEXT) if is_long else described.pop("body", None)
        described.pop("body_base64", None)
        await self._context.pause()
        decoding = self._describer.describe(message, with_body=False, is_decoded=True)
        decoded = decoding["decoded"]
        await self._context.pause()
        return ShownMessage(
            described,
            None if decoded is None else indented_json(decoded, SHOWN_TEXT),
            decoding["decode_error"],
            None if text is None else text[:SHOWN_TEXT],
            list(hex_rows(bytes(body[:SHOWN_BYTES]))),
            len(body) > SHOWN_BYTES,
            dump_packet(message.view),
        )


def beginning_of_text(body: bytes | memoryview, characters: int) -> str | None:
    """The first characters of a text in UTF-8; C{None} if they are none."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        text: str = decoder.decode(bytes(body[: _LONGEST_CHARACTER * characters]))
    except UnicodeDecodeError:
        return None
    return plain_text(text[:characters].encode())


def indented_json(value: object, characters: int) -> str:
    """The first characters of a value as indented JSON; the rest is not made."""
    parts: list[str] = []
    length = 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        length += len(part)
        if length >= characters:
            break
    return "".join(parts)[:characters]
