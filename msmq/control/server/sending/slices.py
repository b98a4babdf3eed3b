"""Divides the messages of a stream of records into slices, each sent at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from msmq.control.protocol.records import StreamRecord
from msmq.control.protocol.refusals import invalid
from msmq.control.protocol.runs import LONGEST, RUN, MalformedRun, bodies_of, check_run
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.messages.properties import flag, number, read_key, read_properties, text
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.send_run import SendRun, templates_of
from msmq.structures.status import MQError

_OVERHEAD: Final = 64


@attrs.frozen
class SendSlice:
    """Consecutive messages to one destination.

    @ivar cost: the cost of their records, as of L{cost}.
    @ivar keys: the key of each; C{None} if no message has one.
    """

    destination: str
    messages: Sequence[Message]
    cost: int
    keys: Sequence[str | None] | None = None

    @property
    def is_transactional(self) -> bool:
        """Whether any of the messages is."""
        return any(message.transactional for message in templates_of(self.messages))


@attrs.frozen
class _Properties:
    """Parsed properties, for the headers that share them: those of runs differ in the run alone.

    @ivar text: the properties as text, which distinguishes C{true} from 1.
    @ivar has_key: whether the header had a key, which may make the messages recoverable.
    """

    text: str
    has_key: bool
    arguments: Mapping[str, Any]
    template: Message


@attrs.frozen
class _Header:
    """A parsed header, for the records that share it."""

    header: Mapping[str, Any]
    destination: str | None
    extension_size: int
    run: int | Sequence[int] | None
    properties: _Properties


class SliceBuilder:
    """Builds messages from records; a destination applies to later records too.

    @param keeps_recoverable: whether a message with a key is recoverable unless its record says otherwise:
        in a store that is not durable neither the message nor the key survives a restart.
    @param begin: called for a record with C{one_transaction}; raises L{MQError} to refuse it.
    """

    def __init__(self, limits: ControlLimits, keeps_recoverable: bool, begin: Callable[[], None]) -> None:
        self._limits = limits
        self._keeps_recoverable = keeps_recoverable
        self._begin = begin
        self._destination: str | None = None
        self._last: _Header | None = None
        # The header of the last record.
        self._key: str | None = None

    @property
    def has_cut(self) -> bool:
        """Whether a slice was taken before."""
        return self._destination is not None

    def cut(self, records: deque[StreamRecord]) -> SendSlice:
        """Take the next slice from the left of these records, which must not be empty.

        @raise MQError: the next record cannot be sent.
        """
        limits = self._limits
        destination, found = self._messages(records[0])
        self._destination = named = destination
        parts: list[Sequence[Message]] = []
        keys: list[str | None] = []
        size = costs = count = 0
        while named == destination:
            record = records.popleft()
            costs += cost(record)
            size += len(record.body)
            parts.append(found)
            number = len(found)
            count += number
            keys += [self._key] * number
            if not records or count >= limits.slice_messages or size >= limits.slice_bytes:
                break
            try:
                named, found = self._messages(records[0])
            except MQError:
                break
        has_keys = keys.count(None) < len(keys)
        return SendSlice(destination, _joined(parts), costs, keys if has_keys else None)

    def _messages(self, record: StreamRecord) -> tuple[str, Sequence[Message]]:
        # Consecutive records share an equal header, which is parsed once.
        last = self._last
        if last is None or last.header is not record.header:
            last = self._last = self._read(record.header)
        destination = self._destination if last.destination is None else last.destination
        if destination is None:
            raise invalid("the first record of a stream must have a destination")
        if last.run is not None:
            try:
                return destination, SendRun(last.properties.template, bodies_of(last.run, record.body))
            except MalformedRun as error:
                raise invalid(str(error)) from error
        if not last.extension_size:
            return destination, SendRun(last.properties.template, [record.body])
        return destination, [_message(record, last.extension_size, last.properties.arguments)]

    def _read(self, header: Mapping[str, Any]) -> _Header:
        properties = dict(header)
        if flag("one_transaction", properties.pop("one_transaction", False)):
            self._begin()
        named = properties.pop("destination", None)
        extension_size = number("extension_size", properties.pop("extension_size", 0))
        try:
            run = check_run(properties.pop(RUN, None))
        except MalformedRun as error:
            raise invalid(str(error)) from error
        if run is not None and (extension_size or "key" in properties):
            raise invalid("a run has neither an extension nor a key")
        self._key = read_key(properties.pop("key", None))
        destination = None if named is None else text("destination", named)
        return _Header(header, destination, extension_size, run, self._properties(properties))

    def _properties(self, properties: Mapping[str, Any]) -> _Properties:
        last = None if self._last is None else self._last.properties
        found, has_key = repr(properties), self._key is not None
        if last is not None and last.has_key == has_key and last.text == found:
            return last
        arguments = read_properties(properties, is_recoverable=has_key and self._keeps_recoverable)
        return _Properties(found, has_key, arguments, Message(**arguments))


def _joined(parts: Sequence[Sequence[Message]]) -> Sequence[Message]:
    """All of them, as one run if they have the same properties."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, SendRun):
        template = first.template
        runs = [part for part in parts if isinstance(part, SendRun) and part.template is template]
        if len(runs) == len(parts):
            return SendRun(template, [body for run in runs for body in run.bodies])
    return [message for part in parts for message in part]


def _message(record: StreamRecord, extension_size: int, arguments: Mapping[str, Any]) -> Message:
    body_size = len(record.body) - extension_size
    if body_size < 0:
        raise invalid(f"extension_size is {extension_size} in a record of {len(record.body)} bytes")
    return Message(body=record.body[:body_size], extension=record.body[body_size:], **arguments)


def cost(record: StreamRecord) -> int:
    """The cost of a pending record, in bytes."""
    run = record.header.get(RUN)
    # A malformed run is refused when its slice is taken.
    messages = 1 if run is None else run if type(run) is int else LONGEST
    return len(record.body) + record.header_size + max(1, min(messages, LONGEST)) * _OVERHEAD
