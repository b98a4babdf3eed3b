"""The messages that a stream of records holds, in slices that are sent at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from msmq.control.protocol.records import StreamRecord
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.messages.properties import flag, number, read_key, read_properties, text
from msmq.queues.arriving.message import Message
from msmq.structures.status import MQError

_OVERHEAD: Final = 64


@attrs.frozen
class SendSlice:
    """Consecutive messages to one destination.

    @ivar cost: what their records count for, as of L{cost}.
    @ivar keys: the key of each; C{None} if no message has one.
    """

    destination: str
    messages: Sequence[Message]
    cost: int
    keys: Sequence[str | None] | None = None


class SliceBuilder:
    """Makes messages of records; the destination holds for the records behind it.

    @param begin: called for a record that says C{one_transaction}; refuses it by raising L{MQError}.
    """

    def __init__(self, limits: ControlLimits, begin: Callable[[], None]) -> None:
        self._limits = limits
        self._begin = begin
        self._destination: str | None = None
        self._last: tuple[Mapping[str, Any], str | None, int, dict[str, Any]] | None = None
        # Of the message that was read last.
        self._key: str | None = None

    @property
    def has_cut(self) -> bool:
        """Whether there was a slice before."""
        return self._destination is not None

    def cut(self, records: deque[StreamRecord]) -> SendSlice:
        """Take the next slice from the left of these records, of which there is one at least.

        @raise MQError: the next record cannot be sent.
        """
        limits = self._limits
        destination, message = self._message(records[0])
        self._destination = named = destination
        messages: list[Message] = []
        keys: list[str | None] = []
        size = costs = 0
        while named == destination:
            record = records.popleft()
            costs += cost(record)
            size += len(record.body)
            messages.append(message)
            keys.append(self._key)
            if not records or len(messages) == limits.slice_messages or size >= limits.slice_bytes:
                break
            try:
                named, message = self._message(records[0])
            except MQError:
                break
        has_keys = any(key is not None for key in keys)
        return SendSlice(destination, messages, costs, keys if has_keys else None)

    def _message(self, record: StreamRecord) -> tuple[str, Message]:
        # Equal neighbours share their header, so that what it says is read once.
        if self._last is None or self._last[0] is not record.header:
            properties = dict(record.header)
            if flag("one_transaction", properties.pop("one_transaction", False)):
                self._begin()
            named = properties.pop("destination", None)
            extension_size = number("extension_size", properties.pop("extension_size", 0))
            self._key = read_key(properties.pop("key", None))
            self._last = (
                record.header,
                None if named is None else text("destination", named),
                extension_size,
                read_properties(properties, has_key=self._key is not None),
            )
        _, destination, extension_size, arguments = self._last
        destination = self._destination if destination is None else destination
        if destination is None:
            raise invalid("the first record of a stream names its destination")
        if extension_size == 0:
            return destination, Message(body=record.body, **arguments)
        body_size = len(record.body) - extension_size
        if body_size < 0:
            raise invalid(f"extension_size is {extension_size} in a record of {len(record.body)} bytes")
        arguments = {**arguments, "body": record.body[:body_size], "extension": record.body[body_size:]}
        return destination, Message(**arguments)


def cost(record: StreamRecord) -> int:
    """What a record counts for among those that wait, in bytes."""
    return len(record.body) + record.header_size + _OVERHEAD
