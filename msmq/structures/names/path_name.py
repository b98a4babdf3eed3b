"""Path names: the names of queues for people and in the directory. [MS-MQMQ] 2.1.1."""

from __future__ import annotations

import enum

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of
from msmq.structures.names.name_text import (
    COMPUTER_SUFFIXES,
    PRIVATE,
    SYSTEM,
    QueueSuffix,
    Span,
    computer_name,
    optional_lower,
    queue_name,
    read_tail,
    subqueue_name,
)
from msmq.structures.status import Status

LOCAL_COMPUTER = "."
"""The computer name that means the local computer."""


class PathKind(enum.Enum):
    """The three forms of a path name. [MS-MQMQ] 2.1.1."""

    PUBLIC = "public"
    PRIVATE = "private"
    SYSTEM = "system"


def _span(text: str) -> Span:
    return Span.of(text, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)


@attrs.frozen
class PathName:
    r"""QueuePathName; C{str()} gives its text. [MS-MQMQ] 2.1.1.

    Compared without regard to case.

    @ivar computer: the name of the computer; L{LOCAL_COMPUTER} is the local one.
    @ivar queue: the queue's own name, without C{private$\} or C{system$;}.
    @ivar suffix: for the journal of a queue, L{QueueSuffix.JOURNAL}; for a system queue, the one that
        C{queue} names, or L{QueueSuffix.NONE} if there is not one of that name.
    @ivar subqueue: the subqueue's name.
    """

    computer: str = attrs.field(eq=str.lower)
    queue: str = attrs.field(eq=str.lower)
    kind: PathKind = PathKind.PUBLIC
    subqueue: str | None = attrs.field(default=None, eq=optional_lower)
    suffix: QueueSuffix = attrs.field()

    @suffix.default
    def _default_suffix(self) -> QueueSuffix:
        return self._named_suffix() if self.kind is PathKind.SYSTEM else QueueSuffix.NONE

    def _named_suffix(self) -> QueueSuffix:
        for suffix in COMPUTER_SUFFIXES:
            if self.queue.upper() == suffix.value:
                return suffix
        return QueueSuffix.NONE

    def __attrs_post_init__(self) -> None:
        computer_name(_span(self.computer), lenient=True)
        _check_queue(_span(self.queue), self.kind, lenient=True, version=4)
        if self.kind is PathKind.SYSTEM:
            if self.subqueue is not None or self.suffix is not self._named_suffix():
                raise _span(str(self)).illegal("a system queue has no subqueue and no suffix of its own")
            return
        if self.suffix not in (QueueSuffix.NONE, QueueSuffix.JOURNAL):
            raise _span(str(self)).illegal(f"{self.suffix.value} belongs to a computer")
        if self.subqueue is not None:
            if self.suffix is not QueueSuffix.NONE:
                raise _span(str(self)).illegal("both a subqueue and a suffix")
            subqueue_name(_span(self.subqueue), lenient=True)

    @property
    def is_local(self) -> bool:
        """Whether the computer is C{.}, the local one."""
        return self.computer == LOCAL_COMPUTER

    @property
    def queue_path(self) -> str:
        r"""The queue part without suffix and subqueue: C{private$\orders}, C{orders} or C{system$}."""
        match self.kind:
            case PathKind.PUBLIC:
                return self.queue
            case PathKind.PRIVATE:
                return f"{PRIVATE}{self.queue}"
            case PathKind.SYSTEM:
                return SYSTEM[:-1]

    def __str__(self) -> str:
        if self.kind is PathKind.SYSTEM:
            return f"{self.computer}\\{SYSTEM}{self.queue}"
        tail = self.suffix.tail if self.subqueue is None else f";{self.subqueue}"
        return f"{self.computer}\\{self.queue_path}{tail}"


def _check_queue(span: Span, kind: PathKind, *, lenient: bool, version: int) -> str:
    queue = queue_name(span, lenient=lenient, version=version)
    if kind is PathKind.PUBLIC and span.lower in (PRIVATE[:-1], SYSTEM[:-1]):
        raise span.illegal(f"{queue} is not a name of a public queue")
    return queue


def parse_path_name(text: str, version: int = 4, lenient: bool = False) -> PathName:
    r"""Parse a path name; C{private$} and C{system$} ignore case.

    @param version: the version of MSMQ whose alphabet applies: 1, 2 and 3, or 4 and later; from 4 on a queue
        name may be followed by C{;} and a subqueue or C{JOURNAL}.
    @param lenient: allow any printable character in the names of computers and queues.
    @raise LocalProtocolError: it is not a text.
    @raise MQError: MQ_ERROR_ILLEGAL_QUEUE_PATHNAME, with the fault and its position.
    """
    given: object = text
    if not isinstance(given, str):
        raise LocalProtocolError(f"the path of a queue is {kind_of(given)}; it has to be a str")
    whole = _span(text)
    first, rest = whole.partition("\\")
    computer = computer_name(first, lenient=lenient)
    if rest is None:
        raise first.illegal("a backslash and a queue name are missing", len(first))
    if first.lower in (PRIVATE[:-1], SYSTEM[:-1]):
        raise first.illegal("expected a computer, such as . for this one,")
    if rest.lower.startswith(SYSTEM):
        name = _check_queue(rest.after(len(SYSTEM)), PathKind.SYSTEM, lenient=lenient, version=version)
        return PathName(computer, name, PathKind.SYSTEM)
    kind = PathKind.PUBLIC
    if rest.lower.startswith(PRIVATE):
        kind, rest = PathKind.PRIVATE, rest.after(len(PRIVATE))
    tail = None
    if version >= 4:
        rest, tail = rest.partition(";")
    queue = _check_queue(rest, kind, lenient=lenient, version=version)
    suffix, subqueue = read_tail(tail, lenient=lenient)
    return PathName(computer, queue, kind, subqueue, suffix)
