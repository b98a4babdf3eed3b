"""Topics of a stream: selection of queues by name."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import EARLIEST, LATEST, ReadOptions
from msmq.pipeline.stored_packets import text
from msmq.quoting import quoted
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError

_SYSTEM: Final = {
    "source_journal": "system$;journal",
    "dead_letter": "system$;deadletter",
    "dead_letter_transactional": "system$;deadxact",
}
DEAD_LETTERS: Final = ".\\system$;dead"
"""The common prefix of the topics of both dead-letter queues, in lower case."""
_OWN: Final = frozenset({"private$\\order_queue$", "private$\\notify_queue$"})
"""Queues of the queue manager itself."""
USED: Final = (QueueType.PRIVATE, QueueType.PUBLIC, QueueType.CONNECTOR)


@attrs.frozen
class Topic:
    r"""One queue of a stream.

    @ivar name: its path, such as C{.\private$\orders;journal}.
    """

    queue: UUID
    name: str
    is_logged: bool = False


def topic_name(definition: QueueDefinition) -> str:
    """The topic of a queue."""
    if definition.type is QueueType.OUTGOING:
        return text(definition.path)
    return text(f".\\{definition.path}")


def topics_of(stream: str, definitions: Iterable[QueueDefinition]) -> list[Topic]:
    """The queues of a stream, subscribed or not."""
    return [
        Topic(definition.identifier, topic_name(definition), definition.log)
        for definition in definitions
        if _is_of(stream, definition)
    ]


def logged_topics(definitions: Iterable[QueueDefinition], logs: Container[UUID]) -> list[Topic]:
    """The queues with a message log, and those of C{logs}, whose log was disabled and keeps its entries."""
    every = list(definitions)
    disabled = [each for each in topics_of("queue", every) if not each.is_logged and each.queue in logs]
    return [*topics_of("log", every), *disabled]


def _is_of(stream: str, definition: QueueDefinition) -> bool:
    path = definition.path.lower()
    if stream in _SYSTEM:
        return path == _SYSTEM[stream]
    match stream:
        case "journal":
            return definition.type is QueueType.SYSTEM and definition.parent is not None
        case "outgoing":
            return definition.type is QueueType.OUTGOING
        case "log":
            return definition.type in USED and definition.log
        case _:
            return definition.type in USED and path not in _OWN


def subscribed(options: ReadOptions, stream: str, topics: Sequence[Topic], where: str) -> list[Topic]:
    """The selected topics.

    @param where: the location of the store, for error texts.
    @raise ReadingError: a queue of C{subscribe} does not exist.
    """
    if options.pattern:
        pattern = re.compile(options.pattern)
        return [topic for topic in topics if pattern.fullmatch(topic.name)]
    if not options.topics:
        return list(topics)
    found = {topic.queue: topic for name in options.topics for topic in [_named(name, stream, topics, where)]}
    return list(found.values())


def _named(name: str, stream: str, topics: Sequence[Topic], where: str) -> Topic:
    topic = find_topic(topics, name)
    if topic is None:
        raise ReadingError(f"{where} has no queue {name} in the stream {stream}")
    return topic


def find_topic(topics: Iterable[Topic], name: str) -> Topic | None:
    r"""The topic with this name; a full path has precedence over a short name.

    C{orders} is the public queue of that name, and without one C{.\private$\orders}.
    """
    called = [topic for topic in topics if is_called(topic.name, name)]
    return min(called, key=lambda topic: _names(topic.name).index(name.lower()), default=None)


def is_called(topic: str, name: str) -> bool:
    r"""Whether a name matches a topic: its path, with or without C{.\} and suffix, or its last part.

    C{orders} is C{.\private$\orders}, and C{.\private$\orders;journal} among journals.
    """
    return name.lower() in _names(topic)


def _names(topic: str) -> tuple[str, ...]:
    """The names of a topic, in lower case; the shortest last."""
    full = topic.lower()
    path = full.removeprefix(".\\")
    bare = path.partition(";journal")[0]
    names = (full, path, bare, f".\\{bare}")
    return (*names, path.removeprefix("private$\\"), bare.removeprefix("private$\\"))


def is_sendable(topic: str, message_class: int) -> bool:
    """Whether a message of this topic can be sent again, by its class.

    The class of a dead letter is the reason of its failure; elsewhere a class other than 0 is that of an
    acknowledgement or a report, which only queue managers send.
    """
    return not message_class or topic.lower().startswith(DEAD_LETTERS)


def names_queue(text: str) -> bool:
    """Whether a text is a valid format name; the field of a packet may contain any text."""
    try:
        parse_format_name(text)
    except MQError:
        return False
    return True


def offsets_of(
    wanted: str | Mapping[str, int] | None, topics: Sequence[Topic], option: str, where: str
) -> dict[str, int | str]:
    """For each topic, by its name, the requested offset, or C{earliest} or C{latest}.

    A topic without a requested offset is not in the result.

    @param wanted: the value of the option.
    @raise ReadingError: the option names a topic that is not read.
    """
    if wanted is None:
        return {}
    if isinstance(wanted, str):
        return {topic.name: wanted for topic in topics}
    found: dict[str, int | str] = {}
    for name, offset in wanted.items():
        topic = find_topic(topics, name)
        if topic is None:
            raise ReadingError(f"the option {option} names {quoted(name)}, which is not read from {where}")
        found[topic.name] = {-1: LATEST, -2: EARLIEST}.get(offset, offset)
    return found
