"""Stored form of messages that wait for an acknowledgement, and of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

from msmq.persistence.state_records import StateError, reading
from msmq.transfer.source_journaling import AwaitedMessage, MessageAnswer
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

_VERSION: Final = 1
"""Of a value about messages with identifiers of this queue manager."""

_VERSION_OF_OTHERS: Final = 2
"""Of a value in which each context has the queue manager of the identifiers, too."""

_MESSAGE: Final = Struct("<IIQBQ")
_ANSWER: Final = Struct("<IIH")

_Context: TypeAlias = tuple[str, UUID, UUID, UUID | None]
"""The common part of messages or answers: destination, owner or source, administration queue, sender."""


def write_messages(messages: Sequence[tuple[AwaitedMessage, int]]) -> bytes:
    """A value of the store with these messages and the LookupIdentifiers at which they wait."""
    contexts = [
        (each.destination, each.owner or NULL_GUID, each.admin_queue, each.sender) for each, _ in messages
    ]
    writer, numbers = _begin(contexts)
    for context, (each, lookup_id) in zip(contexts, messages, strict=True):
        record = numbers[context], each.message_id, lookup_id, each.wanted, each.due
        writer.bytes(_MESSAGE.pack(*record))
    return writer.getvalue()


def read_messages(name: str, data: bytes) -> list[tuple[AwaitedMessage, int]]:
    """Read a value of L{write_messages}.

    @param name: of the value.
    @raise StateError: it is damaged.
    """
    found = []
    version = _version(data)
    with reading(name, data, version) as reader:
        contexts = _read_contexts(reader, version)
        for _ in range(reader.u32("Count")):
            number, message_id, lookup_id, wanted, due = reader.unpack(_MESSAGE, "Message")
            destination, owner, admin_queue, sender = _context(name, contexts, number)
            known = None if owner == NULL_GUID else owner
            message = AwaitedMessage(message_id, destination, known, admin_queue, wanted, due, sender=sender)
            found.append((message, lookup_id))
    return found


def write_answers(answers: Sequence[MessageAnswer]) -> bytes:
    """A value of the store with these answers."""
    contexts = [(each.destination, each.source, each.admin_queue, each.sender) for each in answers]
    writer, numbers = _begin(contexts)
    for context, each in zip(contexts, answers, strict=True):
        writer.bytes(_ANSWER.pack(numbers[context], each.message_id, each.message_class))
    return writer.getvalue()


def read_answers(name: str, data: bytes) -> list[MessageAnswer]:
    """Read a value of L{write_answers}.

    @param name: of the value.
    @raise StateError: it is damaged.
    """
    found = []
    version = _version(data)
    with reading(name, data, version) as reader:
        contexts = _read_contexts(reader, version)
        for _ in range(reader.u32("Count")):
            number, message_id, message_class = reader.unpack(_ANSWER, "Answer")
            destination, source, admin_queue, sender = _context(name, contexts, number)
            found.append(
                MessageAnswer(message_id, destination, message_class, source, admin_queue, sender=sender)
            )
    return found


def _begin(contexts: Sequence[_Context]) -> tuple[Writer, Mapping[_Context, int]]:
    """A value with its contexts, each once, and how many records follow."""
    numbers = {context: number for number, context in enumerate(dict.fromkeys(contexts))}
    has_others = any(sender is not None for _, _, _, sender in numbers)
    writer = Writer()
    writer.u8(_VERSION_OF_OTHERS if has_others else _VERSION, "Version")
    writer.u32(len(numbers), "Contexts")
    for destination, who, admin_queue, sender in numbers:
        writer.u32(len(destination.encode("utf-16-le", "surrogatepass")) + 2, "Size")
        writer.utf16(destination, "Destination")
        writer.guid(who)
        writer.guid(admin_queue)
        if has_others:
            writer.guid(sender or NULL_GUID)
    writer.u32(len(contexts), "Count")
    return writer, numbers


def _version(data: bytes) -> int:
    """The version to read; a value of any unknown one is refused as of the first."""
    return _VERSION_OF_OTHERS if data[:1] == bytes((_VERSION_OF_OTHERS,)) else _VERSION


def _read_contexts(reader: Reader, version: int) -> list[_Context]:
    return [
        (
            reader.utf16(reader.u32("Size"), "Destination"),
            reader.guid("QueueManager"),
            reader.guid("AdministrationQueue"),
            _read_sender(reader) if version == _VERSION_OF_OTHERS else None,
        )
        for _ in range(reader.u32("Contexts"))
    ]


def _read_sender(reader: Reader) -> UUID | None:
    sender = reader.guid("Sender")
    return None if sender == NULL_GUID else sender


def _context(name: str, contexts: Sequence[_Context], number: int) -> _Context:
    if number >= len(contexts):
        raise StateError(name, f"has {len(contexts)} contexts, and a record of number {number}")
    return contexts[number]
