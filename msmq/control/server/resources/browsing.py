"""The resources of the control API that show the messages of a queue without receiving them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from klein import Klein
from twisted.plugin import getPlugins

from msmq.control.protocol.refusals import refusal
from msmq.control.server.http.disconnection import give_way, running
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest
from msmq.control.server.http.responses import JSON_LINES, ResponseStream, json_answer, to_json
from msmq.control.server.messages.places import properties_of
from msmq.control.server.messages.properties import flag, number
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.resources.message_filter import MessageFilter
from msmq.decoding.bodies import Body, BodyDecoders, IBodyDecoder
from msmq.decoding.message_json import body_json
from msmq.decoding.values import base64_text
from msmq.interfaces.queue_manager import MessagePage, ReceivedMessage
from msmq.structures.status import MQError

_PAGE: Final = 64
"""Messages that are read from the store together."""

_TURN: Final = 0.005
"""Seconds after which a step ends, so that the reactor can serve others."""

_PROGRESS: Final = 1.0
"""Seconds after which a search that finds nothing says how far it is."""

_DECODED: Final = 0x10000
"""Bytes of a body that is decoded for a filter; a larger one would hold the reactor for too long."""


class BrowsingResources:
    """Messages in queues, page by page and one by one."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._inspection = context.manager.inspection
        self._clock = context.clock
        self._decoders: BodyDecoders | None = None

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
        # What is refused at once has a status of its own; later there is only the end of the stream.
        await running(self._inspection.browse(path, after=after, count=1))
        search = _Search(self, wanted, limit, with_body=is_whole, is_decoded=is_decoded)
        stream = ResponseStream(request, JSON_LINES)
        try:
            stream.open()
            try:
                await self._search(stream, search, path, after)
                stream.write(_line(search.ended()))
            except MQError as error:
                stream.write(_line(refusal(error)))
        finally:
            stream.close()

    async def _search(self, stream: ResponseStream, search: _Search, path: str, after: int) -> None:
        began = told = self._clock.seconds()
        page = await running(self._inspection.browse(path, after=after, count=_PAGE))
        while True:
            for line in search.lines(page):
                if line:
                    stream.write(line)
                if (now := self._clock.seconds()) - began >= _TURN:
                    if now - told >= _PROGRESS:
                        told = now
                        stream.write(_line(search.progress()))
                    await give_way(self._clock)
                    await stream.drained()
                    began = self._clock.seconds()
            if search.is_over(page):
                return
            await give_way(self._clock)
            await stream.drained()
            began = self._clock.seconds()
            page = await running(self._inspection.browse(path, after=page.last, count=_PAGE))

    @app.route("/v1/queues/<path:path>/messages/<int:lookup_id>", methods=["GET"])
    async def message(self, request: ControlRequest, path: str, lookup_id: int) -> bytes:
        """One message, with its body."""
        found = parameters(request)
        is_decoded = flag("decode", found.pop("decode", "false"))
        is_raw = flag("raw", found.pop("raw", "false"))
        refuse_rest(found, "decode and raw")
        message = await running(self._inspection.read_message(path, lookup_id))
        value = self.describe(message, with_body=not is_raw, is_decoded=is_decoded)
        if is_raw:
            value["body_base64"] = base64_text(message.view.body)
        return json_answer(request, value)

    def describe(self, message: ReceivedMessage, *, with_body: bool, is_decoded: bool) -> dict[str, Any]:
        """A message in JSON, with its body and what that is decoded to, if they are asked for."""
        view = message.view
        value = properties_of(message)
        if with_body:
            value |= body_json(value["class"], value["label"], view.body)
        if is_decoded:
            if self._decoders is None:
                self._decoders = BodyDecoders(getPlugins(IBodyDecoder))
            if len(view.body) > _DECODED:
                value |= {"decoded": None, "decode_error": f"a body of more than {_DECODED} bytes"}
            else:
                outcome = self._decoders.decode(Body(bytes(view.body), view.body_type, bytes(view.extension)))
                decoded = None if outcome.decoded is None else outcome.decoded.as_json()
                value |= {"decoded": decoded, "decode_error": outcome.error or None}
        return value


class _Search:
    """Goes through pages, and finds what matches.

    @param limit: after how many it ends.
    """

    def __init__(
        self, api: BrowsingResources, wanted: MessageFilter, limit: int, *, with_body: bool, is_decoded: bool
    ) -> None:
        self._api = api
        self._filter = wanted
        self._limit = limit
        self._with_body = with_body
        self._is_decoded = is_decoded
        self._found = 0
        self._looked_at = 0
        self._after: int | None = None
        self._is_end = False

    def lines(self, page: MessagePage) -> Iterator[bytes]:
        """A line for each message that matches, and nothing for each that does not."""
        for message in page.messages:
            if self._found == self._limit:
                return
            self._looked_at += 1
            self._after = message.lookup_id
            value = self._matching(message)
            if value is not None:
                self._found += 1
            yield b"" if value is None else _line(value)
        if self._found < self._limit:
            self._after = page.last
            self._is_end = page.is_end
        for lookup_id, reason in page.unreadable.items():
            yield _line({"lookup_id": lookup_id, "unreadable": reason})

    def _matching(self, message: ReceivedMessage) -> dict[str, Any] | None:
        wanted = self._filter
        if not wanted.has_text(message.view.body):
            return None
        asked = wanted.is_empty
        value = self._api.describe(
            message,
            with_body=self._with_body if asked else wanted.wants_body,
            is_decoded=self._is_decoded if asked else wanted.wants_decoded,
        )
        if asked:
            return value
        if not wanted.matches(value):
            return None
        return self._api.describe(message, with_body=self._with_body, is_decoded=self._is_decoded)

    def is_over(self, page: MessagePage) -> bool:
        """Whether there is nothing more to look at, or enough was found."""
        return self._is_end or self._found == self._limit

    def progress(self) -> dict[str, Any]:
        """How far it is."""
        return {"looked_at": self._looked_at, "found": self._found, "after": self._after}

    def ended(self) -> dict[str, Any]:
        """How far it came, and why no further."""
        value = {"end": "queue" if self._is_end else "limit", **self.progress()}
        if self._filter.failed:
            value |= {"not_compared": self._filter.failed, "reason": self._filter.failure}
        return value


def _line(value: dict[str, Any]) -> bytes:
    return to_json(value) + b"\n"
