"""Resources that browse the messages of a queue without receiving them."""

from __future__ import annotations

from typing import Final

from klein import Klein

from msmq.control.protocol.refusals import refusal
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import JSON_LINES, ResponseStream, json_answer
from msmq.control.server.messages.properties import flag, number
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.control.server.resources.message_search import (
    PAGE,
    PROGRESS,
    TURN,
    MessageDescriber,
    MessageSearch,
    json_line,
)
from msmq.decoding.values import base64_text
from msmq.structures.status import MQError

HELD: Final = 1.0
"""Seconds for which a page is held for a reader that is behind."""


class BrowsingResources:
    """Messages in queues, page by page and one by one."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._inspection = context.manager.inspection
        self._clock = context.clock
        self._describer = MessageDescriber()
        self._memory = context.memory
        self._evaluations = context.evaluations

    @app.route("/v1/queues/<path:path>/messages", methods=["GET"])
    async def browse(self, request: ControlRequest, path: str) -> None:
        """The messages of one queue from a position on, filtered, a line of JSON each."""
        found = parameters(request)
        after = number("after", found.pop("after")) if "after" in found else -1
        limit = number("limit", found.pop("limit", "100"))
        is_whole = flag("bodies", found.pop("bodies", "true"))
        is_decoded = flag("decode", found.pop("decode", "false"))
        wanted = MessageFilter(found.pop("where", None), found.pop("body", None))
        refuse_rest(found, "after, limit, bodies, decode, where and body")
        # An early refusal has an HTTP status; a later one is the end of the stream.
        await running(self._inspection.browse(path, after=after, count=1))
        share = self._evaluations.of(request.account)
        search = MessageSearch(
            self._describer, wanted, limit, with_body=is_whole, is_decoded=is_decoded, share=share
        )
        stream = ResponseStream(request, JSON_LINES)
        try:
            stream.open()
            try:
                await self._search(stream, search, share, path, after)
                stream.write(json_line(search.ended()))
            except MQError as error:
                stream.write(json_line(refusal(error)))
        finally:
            self._memory.release(stream)
            stream.close()

    async def _search(
        self, stream: ResponseStream, search: MessageSearch, share: EvaluationShare, path: str, after: int
    ) -> None:
        began = reported = self._clock.seconds()
        count = PAGE
        while True:
            await self._memory.room()
            stream.check_caller()
            page = await running(self._inspection.browse(path, after=after, count=count))
            if share.rests:
                # The page takes no memory until then.
                del page
                await share.ready()
                continue
            self._memory.take(stream, sum(message.view.size for message in page.messages))
            is_read = True
            for line in search.lines(page):
                if line:
                    stream.write(line)
                if (
                    stream.is_behind
                    and not await stream.drained_within(HELD, self._clock)
                    and search.after != page.last
                ):
                    # Its messages are read again when the reader goes on, and take no memory until then.
                    is_read = False
                    break
                if (now := self._clock.seconds()) - began >= TURN:
                    if now - reported >= PROGRESS:
                        reported = now
                        stream.write(json_line(search.progress()))
                    if share.rests and search.after != page.last:
                        # As above, and one by one, since the others of a page would be read for each.
                        is_read, count = False, 1
                        break
                    await next_reactor_turn(self._clock)
                    began = self._clock.seconds()
            self._memory.release(stream)
            if is_read and search.is_over(page):
                return
            after = page.last if is_read else search.after
            del page
            await next_reactor_turn(self._clock)
            await stream.drained()
            await share.ready()
            began = self._clock.seconds()

    @app.route("/v1/queues/<path:path>/messages/<int:lookup_id>", methods=["GET"])
    async def message(self, request: ControlRequest, path: str, lookup_id: int) -> bytes:
        """One message, with its body."""
        found = parameters(request)
        is_decoded = flag("decode", found.pop("decode", "false"))
        is_raw = flag("raw", found.pop("raw", "false"))
        refuse_rest(found, "decode and raw")
        message = await running(self._inspection.read_message(path, lookup_id))
        value = self._describer.describe(message, with_body=not is_raw, is_decoded=is_decoded)
        if is_raw:
            value["body_base64"] = base64_text(message.view.body)
        return json_answer(request, value)
