"""Messages that a client sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack
from uuid import uuid4

import attrs

from msmq.control.protocol.records import StreamRecord
from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted


class MessageProperties(TypedDict, total=False):
    """The properties of a message in the control API; the server checks their ranges.

    C{delivery} is C{recoverable} by default, or C{express}; a transactional message is recoverable.
    Times are in seconds. C{acknowledge} has the names of C{msmq send --ack}.
    C{key} is the identity of the message for the server, which sends a message of a key only once; by default
    each message has one of its own, so that it is not sent twice if the connection is lost.
    """

    label: str
    body_type: int
    priority: int
    delivery: str
    transactional: bool
    time_to_reach_queue: int
    time_to_be_received: int
    journal: bool
    dead_letter: bool
    dead_letter_queue: str
    acknowledge: Sequence[str]
    admin_queue: str
    response_queue: str
    correlation_id: str
    application_tag: int
    privacy_level: str
    sign: str
    key: str


@attrs.frozen
class MessageToSend:
    """A message and its destination; L{message_to} creates it.

    @ivar destination: a format name, or the path of a queue of the queue manager.
    @ivar properties: of L{MessageProperties}, C{key} among them.
    @ivar extension: PROPID_M_EXTENSION, in which frameworks keep headers.
    """

    destination: str
    body: bytes = attrs.field(repr=False)
    properties: Mapping[str, object]
    extension: bytes = attrs.field(default=b"", repr=False)

    def record(self, **more: object) -> StreamRecord:
        """The message as a record of the control API, with more properties."""
        header = {"destination": self.destination, **self.properties, **more}
        if self.extension:
            header["extension_size"] = len(self.extension)
        return StreamRecord(header, self.body + self.extension)


def message_to(
    destination: str,
    body: bytes | str = b"",
    *,
    extension: bytes = b"",
    **properties: Unpack[MessageProperties],
) -> MessageToSend:
    """A message to a queue.

    @param destination: a format name, or the path of a queue of the queue manager.
    @param body: a text is encoded as UTF-8.
    @param extension: headers of a framework, or what else the receiver expects there.
    @param properties: see L{MessageProperties}.
    @raise LocalProtocolError: an argument is of another type, or there is no such property.
    """
    if not isinstance(destination, str):
        raise LocalProtocolError(f"destination is {kind_of(destination)}, it has to be text")
    if isinstance(body, str):
        try:
            body = body.encode()
        except UnicodeEncodeError as error:
            raise LocalProtocolError(
                f"body: character {error.start + 1} is a lone surrogate, which UTF-8 does not have; encode"
                " the text as its receiver expects it"
            ) from None
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise LocalProtocolError(f"body is {kind_of(body)}, it has to be bytes or text")
    if not isinstance(extension, (bytes, bytearray, memoryview)):
        raise LocalProtocolError(f"extension is {kind_of(extension)}, it has to be bytes")
    unknown = sorted(set(properties) - set(MessageProperties.__annotations__))
    if unknown:
        raise LocalProtocolError(f"{quoted(unknown[0])} is not a property of a message")
    chosen = {"key": str(uuid4()), "delivery": "recoverable", **properties}
    return MessageToSend(destination, bytes(body), chosen, bytes(extension))
