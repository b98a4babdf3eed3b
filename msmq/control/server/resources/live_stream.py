"""Resource of live figures as server-sent events, one stream for a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
from klein import Klein
from twisted.internet.task import deferLater

from msmq.control.authentication.roles import Role
from msmq.control.protocol.refusals import invalid, refusal, role_too_low
from msmq.control.server.http.caller_shares import CallerShares
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.http.requests import ControlRequest, refuse_rest
from msmq.control.server.http.responses import ResponseStream
from msmq.control.server.live.event_stream import EVENT_STREAM, EventStreamEncoder
from msmq.control.server.live.figures import LiveFigures
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import number
from msmq.control.server.resources.context import ResourceContext
from msmq.control.server.resources.event_filter import EventFilter
from msmq.control.server.resources.events import described_event, last_sequence
from msmq.control.server.resources.message_search import TURN
from msmq.quoting import quoted
from msmq.structures.status import MQError

STREAMS: Final = 64
"""Limit on open streams."""

OBJECTS: Final = 100
"""Limit on the queues, and on the outgoing queues, that one stream follows."""

PERIOD: Final = 2.0
"""Seconds between two comparisons of the figures with those that were sent."""

TOPICS: Final = ("overview", "history", "events")
"""C{overview} and C{history} are for every role, the event log and single queues for readers."""

_FIRST_EVENTS: Final = 50
_EVENTS: Final = 200
_DIGITS: Final = 18


@attrs.frozen
class LiveTopics:
    """What one stream follows.

    @ivar topics: those of C{overview}, C{history} and C{events}.
    @ivar queues: the paths of queues.
    @ivar outgoing: the format names of outgoing queues.
    @ivar filter: which entries of the event log.
    @ivar after: the sequence number after which these begin; C{None} for the last ones.
    """

    topics: Sequence[str]
    queues: Sequence[str]
    outgoing: Sequence[str]
    filter: EventFilter
    after: int | None

    @property
    def role(self) -> Role:
        """The least role for them."""
        return Role.READER if self.queues or self.outgoing or "events" in self.topics else Role.MONITOR


class LiveResources:
    """Live figures."""

    app = Klein()

    def __init__(self, context: ResourceContext, figures: LiveFigures) -> None:
        self._inspection = context.manager.inspection
        self._clock = context.clock
        self._figures = figures
        self._evaluations = context.evaluations
        self._streams = CallerShares("live streams", STREAMS)

    @app.route("/v1/stream", methods=["GET"])
    async def stream(self, request: ControlRequest) -> bytes | None:
        """Changed figures as server-sent events, all of them first."""
        wanted = read_topics(request, self._evaluations.of(request.account))
        if request.role is None or request.role < wanted.role:
            raise role_too_low(request.token_name, request.role, "this stream", wanted.role)
        if request.method == b"HEAD":
            self._streams.check(request.account)
            request.responseHeaders.setRawHeaders("content-type", [EVENT_STREAM])
            return b""
        with self._streams.opened(request.account):
            stream = ResponseStream(request, EVENT_STREAM)
            try:
                await self._write(request, stream, wanted)
            finally:
                stream.close()
        return None

    async def _write(self, request: ControlRequest, stream: ResponseStream, wanted: LiveTopics) -> None:
        encoder = EventStreamEncoder(self._clock.seconds())
        follower = _Follower(0, wanted.after)
        stream.open()
        while request.is_current():
            try:
                await self._compare(encoder, wanted, follower)
            except MQError as error:
                # The queue manager stops, or is not open yet: the client connects again.
                encoder.add("refused", refusal(error))
                stream.write(encoder.take(self._clock.seconds()))
                return
            if not request.is_current():
                # Slow comparisons of events take minutes.
                return
            if data := encoder.take(self._clock.seconds()):
                stream.write(data)
            if stream.is_behind:
                await stream.drained()
                # The values in between are of no use to a slow reader.
                encoder.forget()
                follower = _Follower(0, follower.sequence if wanted.after is not None else None)
            await deferLater(self._clock, PERIOD)
            stream.check()

    async def _compare(self, encoder: EventStreamEncoder, wanted: LiveTopics, follower: _Follower) -> None:
        if "overview" in wanted.topics:
            encoder.set("overview", await self._figures.overview())
        history = self._figures.history
        if "history" in wanted.topics and (follower.samples < history.taken or not history.taken):
            encoder.set("history", history.since(follower.samples))
            follower.samples = history.taken
        for path in wanted.queues:
            self._object(encoder, "queue", path, self._inspection.queue)
        for name in wanted.outgoing:
            self._object(encoder, "outgoing", name, self._inspection.outgoing_queue)
        if "events" in wanted.topics:
            if follower.sequence is None:
                follower.sequence = max(0, await last_sequence(self._inspection) - _FIRST_EVENTS)
            page = await running(self._inspection.events(follower.sequence, _EVENTS))
            began = self._clock.seconds()
            for entry in page:
                follower.sequence = entry.sequence
                value = described_event(entry)
                if await wanted.filter.matches(value):
                    encoder.add("event", value, entry.sequence)
                if self._clock.seconds() - began >= TURN:
                    await next_reactor_turn(self._clock)
                    began = self._clock.seconds()

    def _object(
        self, encoder: EventStreamEncoder, topic: str, name: str, find: Callable[[str], object]
    ) -> None:
        """Send one object; null when it was deleted."""
        value: dict[str, Any] | None
        try:
            value = json_record(find(name))
        except MQError:
            value = None
        encoder.set(topic, {"name": name, "value": value}, name)


@attrs.define
class _Follower:
    """How far a stream has followed the history and the event log."""

    samples: int
    sequence: int | None


def read_topics(request: ControlRequest, share: EvaluationShare) -> LiveTopics:
    """The query of a stream: C{topics}, separated by commas, C{queue} and C{outgoing}, once for each, and the
    filter of the event log.

    @param share: that of the caller in slow comparisons.
    @raise MQError: there are unknown or too many of them, or none.
    """
    found: dict[str, list[str]] = {}
    arguments: dict[bytes, list[bytes]] = request.args
    for key, values in arguments.items():
        try:
            found[key.decode("utf-8")] = [value.decode("utf-8") for value in values]
        except UnicodeDecodeError:
            raise invalid(f"the query parameter {quoted(key)} is not UTF-8") from None
    queues, outgoing = found.pop("queue", []), found.pop("outgoing", [])
    single: dict[str, str] = {}
    for name, texts in found.items():
        if len(texts) > 1:
            raise invalid(f"the query parameter {name} is given {len(texts)} times")
        single[name] = texts[0]
    topics = [topic for topic in single.pop("topics", "").split(",") if topic]
    for topic in topics:
        if topic not in TOPICS:
            raise invalid(f"topics are {', '.join(TOPICS)}, not {quoted(topic)}")
    wanted = EventFilter.taken(single, share, "event_")
    after = number("after", single.pop("after")) if "after" in single else None
    refuse_rest(single, "topics, queue, outgoing, after, where, event, event_queue and event_text")
    # A browser that connects again names the last entry that it has.
    last = request.requestHeaders.getRawHeaders(b"last-event-id", [b""])[0]
    if last.isdigit() and len(last) <= _DIGITS:
        after = int(last)
    if max(len(queues), len(outgoing)) > OBJECTS:
        raise invalid(f"a stream follows at most {OBJECTS} queues and {OBJECTS} outgoing queues")
    if not (topics or queues or outgoing):
        raise invalid(f"name topics ({', '.join(TOPICS)}), queue or outgoing")
    return LiveTopics(topics, queues, outgoing, wanted, after)
