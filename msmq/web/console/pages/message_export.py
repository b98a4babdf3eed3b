"""Downloads of selected messages, or of those that a search finds, as JSON lines or as packets."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import attrs
from klein import Klein

from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.requests import parameters, refuse_rest, take
from msmq.control.server.http.responses import JSON_LINES, ResponseStream
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.control.server.resources.message_search import PAGE, MessageDescriber, MessageSearch, json_line
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.available_positions import SEQUENTIAL_MASK
from msmq.quoting import quoted
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.status import MQError, Status
from msmq.web.access.request import WebRequest
from msmq.web.console.forms import ChangeForm
from msmq.web.console.pages.context import TURN, PageContext, page_parameters
from msmq.web.console.rendering import protect

HELD: Final = 1.0
"""Seconds for which a page of messages is held for a browser that is behind."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9]+")
_LONGEST_NAME: Final = 100


@attrs.frozen
class ExportFormat:
    """A format of downloads.

    @ivar encode: makes the bytes of one message.
    """

    content_type: str
    suffix: str
    encode: Callable[[ReceivedMessage], bytes]


class MessageExport:
    """Streams messages to the browser, with those of one page in memory."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._inspection = context.manager.inspection
        self._messages = context.manager.message_administration
        describer = self._describer = MessageDescriber()
        self._formats: Mapping[str, ExportFormat] = {
            "json": ExportFormat(
                JSON_LINES,
                "jsonl",
                lambda message: json_line(describer.describe(message, with_body=True, is_decoded=False)),
            ),
            "packets": ExportFormat(
                "application/octet-stream", "packets", lambda message: packet_of(message.view.packet)
            ),
        }

    @app.route("/messages/export", methods=["GET"])
    async def export(self, request: WebRequest) -> None:
        """All messages of C{queue} that match C{where} and C{body}, without those that arrive meanwhile."""
        found = page_parameters(request)
        path, chosen = take(found, "queue"), self._format(found.pop("format", "json"))
        wanted = MessageFilter(found.pop("where", "") or None, found.pop("body", "") or None)
        refuse_rest(found, "queue, format, where and body")
        # A refusal is a page; after that the download would be incomplete.
        await running(self._inspection.browse(path, after=-1, count=1))
        stream = ResponseStream(request, chosen.content_type)
        await self._write(request, stream, path, chosen, self._found(request, stream, path, wanted))

    @app.route("/messages/export", methods=["POST"])
    async def export_selected(self, request: WebRequest) -> None:
        """The selected messages of C{queue}; none, if one of them is there no more."""
        found, form = parameters(request), ChangeForm(request)
        path, chosen = take(found, "queue"), self._format(found.pop("format", "json"))
        for name in ("where", "body", "after"):
            found.pop(name, None)
        refuse_rest(found, "queue, format, where, body and after")
        lookup_ids = form.numbers("id")
        # The field of the other buttons of the form.
        form.optional("to")
        form.end()
        for lookup_id in lookup_ids:
            await self._read(path, lookup_id)
        stream = ResponseStream(request, chosen.content_type)

        async def selected() -> AsyncIterator[ReceivedMessage]:
            for lookup_id in lookup_ids:
                stream.check_caller()
                yield await self._read(path, lookup_id)
                await stream.drained()

        await self._write(request, stream, path, chosen, selected())

    def _format(self, name: str) -> ExportFormat:
        chosen = self._formats.get(name)
        if chosen is None:
            raise invalid(f"format: {quoted(name)} is not one of {', '.join(self._formats)}")
        return chosen

    async def _read(self, path: str, lookup_id: int) -> ReceivedMessage:
        try:
            return await running(self._inspection.read_message(path, lookup_id))
        except MQError as error:
            if error.status is not Status.MQ_ERROR_MESSAGE_NOT_FOUND:
                raise
            detail = f"message {lookup_id} is there no more: it was received or removed; nothing is exported"
            raise MQError(error.status, detail) from error

    async def _write(
        self,
        request: WebRequest,
        stream: ResponseStream,
        path: str,
        chosen: ExportFormat,
        messages: AsyncIterator[ReceivedMessage],
    ) -> None:
        """Stream a file; an error on the way cuts the connection, so that the browser reports a failure."""
        protect(request)
        name = _UNSAFE.sub("-", path).strip("-")[:_LONGEST_NAME] or "messages"
        request.set_header("content-disposition", f'attachment; filename="{name}.{chosen.suffix}"')
        stream.open()
        try:
            async for message in messages:
                stream.write(chosen.encode(message))
        finally:
            stream.close()

    async def _found(
        self, request: WebRequest, stream: ResponseStream, path: str, wanted: MessageFilter
    ) -> AsyncIterator[ReceivedMessage]:
        share = self._context.evaluations.of(request.account)
        search = MessageSearch(self._describer, wanted, None, with_body=True, is_decoded=False, share=share)
        last, clock = self._messages.last_sequential, self._context.clock
        after, began = -1, clock.seconds()
        while True:
            page = await running(self._inspection.browse(path, after=after, count=PAGE))
            earlier = [each for each in page.messages if each.lookup_id & SEQUENTIAL_MASK <= last]
            is_read = True
            await share.ready()
            stream.check_caller()
            for message in search.matching(attrs.evolve(page, messages=earlier)):
                if message is not None:
                    yield message
                if stream.is_behind and not await stream.drained_within(HELD, clock):
                    # The rest of the page is read again when the browser goes on.
                    is_read = search.after == page.last
                    if not is_read:
                        break
                if clock.seconds() - began >= TURN:
                    await next_reactor_turn(clock)
                    await share.ready()
                    # A page of slow comparisons takes minutes.
                    stream.check_caller()
                    began = clock.seconds()
            if is_read and page.is_end:
                return
            after = page.last if is_read else search.after
            del page, earlier
            await stream.drained()
            await next_reactor_turn(clock)
            began = clock.seconds()
