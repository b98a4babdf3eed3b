"""Counts dead letters by some of their properties, without blocking the reactor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from klein import Klein
from twisted.internet.interfaces import IReactorTime

from msmq.control.protocol.refusals import invalid, refusal
from msmq.control.server.http.disconnection import next_reactor_turn, running
from msmq.control.server.http.evaluation_shares import EvaluationShare
from msmq.control.server.http.requests import ControlRequest, parameters, refuse_rest, take
from msmq.control.server.http.responses import JSON_LINES, ResponseStream
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
from msmq.decoding.values import unix_time
from msmq.interfaces.manager.queue_manager import IInspection
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.queues.leaving.copies import KEPT
from msmq.structures.names.queue_names import DirectQueueFormatName, direct_text
from msmq.structures.packet.message_class import class_name
from msmq.structures.status import MQError
from msmq.wire.guid import format_guid, guid_from_bytes

GROUPS: Final = 10_000
"""Limit on groups; dead letters of further groups are counted together, with null keys."""

_EVENTS: Final = 1_000
DEAD_LETTER_QUEUES: Final = (".\\system$;deadletter", ".\\system$;deadxact")
"""The dead-letter queues, for messages that are not transactional and for those that are."""


def _destination(message: ReceivedMessage) -> str | None:
    user = message.view.user_header
    name = user.destination_queue
    if isinstance(name, DirectQueueFormatName):
        return direct_text(name)
    try:
        resolved = user.resolve_destination()
    except MQError:
        return None
    return None if resolved is None else str(resolved)


_KEYS: Final[Mapping[str, tuple[str, Callable[[ReceivedMessage], str | None]]]] = {
    "class": ("class_name", lambda message: class_name(message.view.message_class)),
    "queue": ("destination_queue", _destination),
    "label": ("label", lambda message: message.view.label),
    "source": (
        "source_queue_manager",
        lambda message: format_guid(guid_from_bytes(message.view.source_queue_manager)),
    ),
}
"""Grouping properties in addition to C{reason}: the printed key of each, and its value."""


@attrs.define
class _Group:
    """Dead letters with equal grouping properties."""

    example: str
    oldest: float
    newest: float
    messages: int = 0
    bytes: int = 0

    def add(self, message: ReceivedMessage) -> None:
        self.messages += 1
        self.bytes += message.view.size
        self.oldest = min(self.oldest, message.arrived)
        self.newest = max(self.newest, message.arrived)


class DeadLetterGroups:
    """The dead letters of both queues, counted by class, queue, reason and others."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._inspection = context.manager.inspection
        self._clock = context.clock
        self._describer = MessageDescriber()
        self._evaluations = context.evaluations

    @app.route("/v1/deadletters/groups", methods=["GET"])
    async def groups(self, request: ControlRequest) -> None:
        """A line for each group, the largest first."""
        found = parameters(request)
        by = [key.strip() for key in take(found, "by").split(",")]
        for key in by:
            if key not in _KEYS and key != "reason":
                raise invalid(f"by: {key} is not one of {', '.join(_KEYS)}, reason")
        wanted = MessageFilter(found.pop("where", None), None)
        refuse_rest(found, "by and where")
        stream = ResponseStream(request, JSON_LINES)
        share = self._evaluations.of(request.account)
        count = _Count(self._inspection, self._clock, stream, by, wanted, share)
        try:
            stream.open()
            try:
                if "reason" in by:
                    await count.read_reasons()
                for path in DEAD_LETTER_QUEUES:
                    search = MessageSearch(
                        self._describer, wanted, None, with_body=False, is_decoded=False, share=share
                    )
                    await count.add(path, search)
                stream.check_caller()
                for line in count.lines():
                    stream.write(json_line(line))
            except MQError as error:
                stream.write(json_line(refusal(error)))
        finally:
            stream.close()


class _Count:
    """Counts page by page."""

    def __init__(
        self,
        inspection: IInspection,
        clock: IReactorTime,
        stream: ResponseStream,
        by: Sequence[str],
        wanted: MessageFilter,
        share: EvaluationShare,
    ) -> None:
        self._share = share
        self._inspection = inspection
        self._clock = clock
        self._stream = stream
        self._by = by
        self._filter = wanted
        self._reasons: dict[bytes, str] = {}
        self._groups: dict[tuple[str | None, ...], _Group] = {}
        self._looked_at = 0
        self._unreadable = 0
        self._reported = self._began = clock.seconds()

    async def read_reasons(self) -> None:
        """Take the reasons of all messages from the event log, whose length is limited."""
        after = 0
        while page := await running(self._inspection.events(after, _EVENTS)):
            after = page[-1].sequence
            for entry in page:
                event = entry.event
                if event.message_class and event.identity:
                    self._reasons[event.identity] = event.reason.removesuffix(KEPT).removesuffix("; ")
            await self._pause()

    async def add(self, path: str, search: MessageSearch) -> None:
        """Count the messages of one queue."""
        after = -1
        while True:
            page = await running(self._inspection.browse(path, after=after, count=PAGE))
            self._unreadable += len(page.unreadable)
            await self._share.ready()
            for message in search.matching(page):
                self._looked_at += 1
                if message is not None:
                    self._group(message).add(message)
                if self._clock.seconds() - self._began >= TURN:
                    await self._pause()
            if search.is_over(page):
                return
            await self._pause()
            after = page.last

    def _group(self, message: ReceivedMessage) -> _Group:
        key = tuple(self._value(each, message) for each in self._by)
        if key not in self._groups and len(self._groups) >= GROUPS:
            key = (None,) * len(self._by)
        group = self._groups.get(key)
        if group is None:
            identifier = str(message.view.identifier)
            group = self._groups[key] = _Group(identifier, message.arrived, message.arrived)
        return group

    def _value(self, key: str, message: ReceivedMessage) -> str | None:
        if key == "reason":
            return self._reasons.get(message.view.identity) or None
        return _KEYS[key][1](message)

    async def _pause(self) -> None:
        now = self._clock.seconds()
        if now - self._reported >= PROGRESS:
            self._reported = now
            self._stream.write(json_line({"looked_at": self._looked_at, "groups": len(self._groups)}))
        await next_reactor_turn(self._clock)
        await self._stream.drained()
        await self._share.ready()
        self._stream.check_caller()
        self._began = self._clock.seconds()

    def lines(self) -> Iterator[dict[str, Any]]:
        """The groups, the largest first, and the end."""
        names = [_KEYS[key][0] if key in _KEYS else key for key in self._by]
        groups = sorted(self._groups.items(), key=lambda item: -item[1].messages)
        for key, group in groups:
            yield {
                **dict(zip(names, key, strict=True)),
                "messages": group.messages,
                "bytes": group.bytes,
                "oldest": unix_time(group.oldest),
                "newest": unix_time(group.newest),
                "example": group.example,
            }
        yield {
            "end": "queue",
            "looked_at": self._looked_at,
            "groups": len(groups),
            **({"unreadable": self._unreadable} if self._unreadable else {}),
            **self._filter.failures(),
        }
