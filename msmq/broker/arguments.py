"""Checks of the arguments of a broker, where they come in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final, cast

import attrs
from zope.interface import Invalid
from zope.interface.verify import verifyObject

from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.queue_properties import DEFAULTS, QueueProperties, check_types
from msmq.interfaces.storage import IMessageStore
from msmq.quoting import kind_of, quoted
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.names.path_name import PathKind, parse_path_name
from msmq.structures.status import MQError

MOST_CONCURRENT: Final = 1000
MOST_BACKLOG: Final = 100_000_000

DeclaredQueues = Iterable[str] | Mapping[str, QueueProperties] | None
"""What C{queues=} takes: names, names with properties, or C{None} for every queue."""


@attrs.frozen
class DeclaredQueue:
    """A queue that a broker declares.

    @ivar path: C{.\\private$\\orders}.
    @ivar properties: with which it is created, if it does not exist.
    """

    path: str
    properties: QueueProperties


def check_number(owner: str, name: str, value: object, largest: int) -> int:
    """A whole number from 1 up.

    @raise LocalProtocolError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _misfit(owner, name, value, "an int")
    if not 1 <= value <= largest:
        raise LocalProtocolError(f"{owner}: {name} is {value}; it has to be from 1 to {largest}")
    return value


def check_text(owner: str, name: str, value: object) -> str | None:
    """A text, or C{None}.

    @raise LocalProtocolError: it is neither.
    """
    if value is not None and not isinstance(value, str):
        raise _misfit(owner, name, value, "a str")
    return value


def check_store(owner: str, value: object) -> str | IMessageStore | None:
    """The path of a data directory, or a store.

    @raise LocalProtocolError: it is neither; names the call that a store lacks.
    """
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        path = os.fspath(value)
        if not isinstance(path, str) or not path:
            raise LocalProtocolError(f"{owner}: store is an empty path; it has to name a data directory")
        return path
    try:
        verifyObject(IMessageStore, value, tentative=True)
    except Invalid as error:
        wrong = " ".join(str(error).split())
        raise LocalProtocolError(
            f"{owner}: store is {kind_of(value)}; it has to be the path of a data directory, or provide"
            f" IMessageStore: {wrong}"
        ) from error
    return cast(IMessageStore, value)


def check_queues(owner: str, value: object) -> list[DeclaredQueue] | None:
    """The declared queues; C{None} for every queue.

    @raise LocalProtocolError: a name or property cannot be used; names it.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _misfit(owner, "queues", value, 'a list of names, such as ["orders"], or a dict')
    declared: dict[str, DeclaredQueue] = {}
    for name in value:
        properties = value[name] if isinstance(value, Mapping) else {}
        queue = _declared(owner, name, properties)
        if declared.setdefault(queue.path.lower(), queue) is not queue:
            raise LocalProtocolError(f"{owner}: queues names {quoted(queue.path)} twice")
    if not declared:
        raise LocalProtocolError(f"{owner}: queues is empty; None takes the messages of every queue")
    return list(declared.values())


def _declared(owner: str, name: object, properties: object) -> DeclaredQueue:
    if not isinstance(name, str):
        raise _misfit(owner, "queues", name, "a name as a str")
    text = name if "\\" in name else f".\\private$\\{name}"
    if text.lower().startswith("private$\\"):
        text = f".\\{text}"
    try:
        path = parse_path_name(text)
    except MQError as error:
        raise LocalProtocolError(f"{owner}: queues has the name {quoted(name)}: {error}") from error
    if path.kind is PathKind.SYSTEM or path.subqueue is not None or path.suffix is not QueueSuffix.NONE:
        raise LocalProtocolError(
            f"{owner}: queues has the name {quoted(name)}; it has to be a queue, not a system queue, journal"
            " or subqueue"
        )
    if not isinstance(properties, Mapping):
        raise _misfit(owner, f"queues[{quoted(name)}]", properties, "a dict of queue properties")
    unknown = [key for key in properties if key not in DEFAULTS]
    if unknown:
        raise LocalProtocolError(
            f"{owner}: queues[{quoted(name)}] has the unknown property {quoted(str(unknown[0]))}; a queue has"
            f" {', '.join(DEFAULTS)}"
        )
    try:
        check_types(properties)
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{owner}: queues[{quoted(name)}]: {error}") from None
    return DeclaredQueue(str(path), cast(QueueProperties, dict(properties)))


def _misfit(owner: str, name: str, value: object, words: str) -> LocalProtocolError:
    given = f"{quoted(value)}, a str" if isinstance(value, str) else kind_of(value)
    return LocalProtocolError(f"{owner}: {name} is {given}; it has to be {words}")
