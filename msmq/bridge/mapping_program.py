"""Mappings by a program: calls of its methods, whose failures concern one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import attrs

from msmq.interfaces.bridge_messages import (
    AmqpMessage,
    AmqpProperties,
    MappingError,
    MessageForQueue,
    QueuedMessage,
)
from msmq.quoting import kind_of, shown

_T = TypeVar("_T")


@attrs.frozen
class MappingProgram:
    """A mapping of a program.

    @ivar name: as the configuration has it: C{MODULE:CLASS}.
    @param mapping: an L{IOutwardMapping<msmq.interfaces.IOutwardMapping>}, an
        L{IInwardMapping<msmq.interfaces.IInwardMapping>}, or both.
    """

    name: str
    _mapping: Any = attrs.field(eq=False, repr=False)

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """The message to publish.

        @raise MappingError: the program has failed, or its result is not a message.
        """
        found = self._called("to_broker", AmqpMessage, message, mapped)
        self._has(found.properties, AmqpProperties, "properties")
        self._has(found.properties.headers, Mapping, "headers")
        for name in ("exchange", "routing_key"):
            self._has(getattr(found, name), str, name)
        self._has(found.body, bytes, "body")
        return found

    def to_queue(self, message: AmqpMessage, mapped: MessageForQueue) -> MessageForQueue:
        """The message to send.

        @raise MappingError: as of L{to_broker}.
        """
        found = self._called("to_queue", MessageForQueue, message, mapped)
        self._has(found.properties, Mapping, "properties")
        for name in ("body", "extension"):
            self._has(getattr(found, name), bytes, name)
        self._has(found.key, str, "key")
        return found

    def _called(self, method: str, result: type[_T], *arguments: object) -> _T:
        try:
            found = getattr(self._mapping, method)(*arguments)
        except MappingError as error:
            raise MappingError(f"mapping: {self.name}: {shown(str(error))}") from error
        except Exception as error:
            reason = shown(f"{type(error).__name__}: {error}")
            raise MappingError(f"mapping: {self.name} has failed: {reason}") from error
        self._has(found, result, "result")
        return cast(_T, found)

    def _has(self, value: Any, kind: type, name: str) -> None:
        if not isinstance(value, kind):
            raise MappingError(
                f"mapping: the {name} of {self.name} is {kind_of(value)}; it has to be {kind.__name__}"
            )
