"""Lexical rules of path names and format names: characters, lengths, error positions. [MS-MQMQ] 2.1."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.structures.status import MQError, Status

COMPUTER_LENGTH = 256
QUEUE_LENGTH = 124
SUBQUEUE_LENGTH = 32
DOMAIN_LENGTH = 255

PRIVATE = "private$\\"
"""The prefix of the name of a private queue."""

SYSTEM = "system$;"
"""The prefix of the name of a system queue."""

_SHOWN = 200


class QueueSuffix(enum.Enum):
    """The suffix of the name of a system queue, after its semicolon."""

    NONE = ""
    JOURNAL = "JOURNAL"
    DEADLETTER = "DEADLETTER"
    DEADXACT = "DEADXACT"
    XACTONLY = "XACTONLY"

    # As that of DirectProtocol.
    __hash__ = object.__hash__

    @property
    def tail(self) -> str:
        """The text that it appends to a name."""
        return f";{self.value}" if self.value else ""


COMPUTER_SUFFIXES: Final = (QueueSuffix.JOURNAL, QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT)
"""The system queues of a computer; all of them are read-only."""


RESERVED: Final = frozenset(suffix.value.lower() for suffix in QueueSuffix if suffix.value)
"""The suffixes of system queues, in lower case; no subqueue has one of these names."""


@attrs.frozen
class Span:
    """A part of a name that is being parsed, with its position in the whole.

    @ivar whole: the whole text from the caller.
    @ivar start: the index at which the part begins.
    @ivar end: the index behind its last character.
    @ivar status: the status of errors in this kind of name.
    """

    whole: str
    start: int
    end: int
    status: Status

    @classmethod
    def of(cls, text: str, status: Status) -> Span:
        """The whole of C{text}."""
        return cls(text, 0, len(text), status)

    @property
    def text(self) -> str:
        """The characters of the part."""
        return self.whole[self.start : self.end]

    @property
    def lower(self) -> str:
        """The characters of the part in lower case, to compare literals without regard to case."""
        return self.text.lower()

    def __len__(self) -> int:
        return self.end - self.start

    def after(self, count: int) -> Span:
        """The part without its first C{count} characters."""
        return attrs.evolve(self, start=min(self.start + count, self.end))

    def partition(self, separator: str) -> tuple[Span, Span | None]:
        """The parts before and after the first C{separator}; the second is L{None} if there is none."""
        at = self.whole.find(separator, self.start, self.end)
        if at < 0:
            return self, None
        return attrs.evolve(self, end=at), attrs.evolve(self, start=at + len(separator))

    def split(self, separator: str) -> list[Span]:
        """The parts between the C{separator}s."""
        parts = []
        rest: Span | None = self
        while rest is not None:
            part, rest = rest.partition(separator)
            parts.append(part)
        return parts

    def illegal(self, problem: str, at: int = 0) -> MQError:
        """Create the error about C{problem}, for the caller to raise.

        @param at: its offset from the beginning of the part.
        """
        whole = self.whole if len(self.whole) <= _SHOWN else self.whole[:_SHOWN] + "..."
        return MQError(self.status, f"{problem} at character {self.start + at + 1} of {quoted(whole)}")


def optional_lower(text: str | None) -> str | None:
    """The lower case of C{text}, if it is not C{None}."""
    return None if text is None else text.lower()


_KIND: Final = re.compile(r"(direct|public|private|dl|machine|connector|multicast)=", re.IGNORECASE)


def check_name(text: object) -> None:
    """Check that the name of a queue is a text.

    @raise LocalProtocolError: it is not.
    """
    if not isinstance(text, str):
        raise LocalProtocolError(f"the name of a queue is {kind_of(text)}; it has to be a str")


def is_format_name(text: str) -> bool:
    r"""Whether a text is a format name rather than a path name.

    It is one if there is an equals sign before the first backslash: C{DIRECT=OS:srv\q} is, and C{srv\a=b} is
    the path of the queue C{a=b}.

    @raise LocalProtocolError: it is not a text.
    """
    check_name(text)
    return "=" in text.partition("\\")[0]


def is_outgoing_path(path: str) -> bool:
    r"""Whether the stored path of a queue is the format name of an outgoing queue.

    Paths of other queues have no computer: C{private$\a=b} and C{a=b} are queues of this computer.
    """
    return _KIND.match(path) is not None


def format_name_span(text: str) -> Span:
    """The whole of C{text}, in which an error is MQ_ERROR_ILLEGAL_FORMATNAME."""
    return Span.of(text, Status.MQ_ERROR_ILLEGAL_FORMATNAME)


Alphabet = Callable[[str], int | None]
"""Returns the index of the first character that is not allowed, or L{None}."""


def _without(pattern: str) -> Alphabet:
    search = re.compile(pattern).search

    def first(text: str) -> int | None:
        match = search(text)
        return None if match is None else match.start()

    return first


def _with_letters(pattern: str) -> Alphabet:
    """An alphabet of the ASCII characters that C{pattern} does not find, and all other printable ones."""
    search = re.compile(pattern).search

    def first(text: str) -> int | None:
        match = search(text)
        end = None if match is None else match.start()
        if not text.isascii():
            for index, character in enumerate(text[:end]):
                if not (character.isascii() or character.isprintable()):
                    return index
        return end

    return first


def _printable(excluded: str) -> Alphabet:
    def first(text: str) -> int | None:
        for index, character in enumerate(text):
            if character in excluded or not (character.isprintable() or character == "\x7f"):
                return index
        return None

    return first


COMPUTER = _without(r"[^!-~]|[\\;,]")
"""Printable ASCII without space, and without the separators of a name."""

COMPUTER_LENIENT = _printable("\\;,")

QUEUE_1 = _with_letters(r"[\0- ;\\]")
"""MSMQ 1.0, and letters beyond ASCII (reading 108)."""

QUEUE_2 = _with_letters(r'[\0- "+,;\\]')
"""MSMQ 2.0 and later, and letters beyond ASCII; also the alphabet of a subqueue.

The grammar has ASCII alone, while packets carry names as UTF-16 ([MS-MQMQ] 2.2.18.1.5.2) and directories as
Unicode ([MS-MQDSSM] 2.2.5), so that there are such queues (reading 108).
"""

QUEUE_LENIENT = _printable("\\;")
"""Any printable character, as there are queues whose names hold spaces or letters beyond ASCII."""

DOMAIN = _without(r"[^!-~]|,")

DOMAIN_LENIENT = _printable(",")


def check(span: Span, what: str, alphabet: Alphabet, longest: int) -> str:
    """Check that C{span} has 1 to C{longest} characters, all of them in C{alphabet}, and return its text.

    @raise MQError: it does not.
    """
    text = span.text
    if not text:
        raise span.illegal(f"a {what} is missing")
    # Peers send names of 32,766 characters, and this is a step of Python for each.
    index = alphabet(text[: longest + 1])
    if index is not None:
        raise span.illegal(f"{quoted(text[index])} is not allowed in a {what}", index)
    if len(text) > longest:
        raise span.illegal(f"a {what} of {len(text)} characters, where {longest} are allowed,")
    return text


def computer_name(span: Span, *, lenient: bool = False) -> str:
    """Computer. [MS-MQMQ] 2.1.1."""
    return check(span, "computer name", COMPUTER_LENIENT if lenient else COMPUTER, COMPUTER_LENGTH)


def queue_name(span: Span, *, lenient: bool = False, version: int = 4) -> str:
    """QueueName, in the alphabet of one version of MSMQ. [MS-MQMQ] 2.1.1."""
    strict = QUEUE_1 if version == 1 else QUEUE_2
    return check(span, "queue name", QUEUE_LENIENT if lenient else strict, QUEUE_LENGTH)


def subqueue_name(span: Span, *, lenient: bool = False) -> str:
    """Subqueue. [MS-MQMQ] 2.1.1."""
    if span.lower in RESERVED:
        raise span.illegal(f"{span.text} is reserved and cannot name a subqueue")
    return check(span, "subqueue name", QUEUE_LENIENT if lenient else QUEUE_2, SUBQUEUE_LENGTH)


def read_tail(span: Span | None, *, lenient: bool) -> tuple[QueueSuffix, str | None]:
    """Parse the part after the semicolon of a queue's name: C{JOURNAL}, or a subqueue; L{None} if missing.

    @raise MQError: with the status of C{span}.
    """
    if span is None:
        return QueueSuffix.NONE, None
    if span.lower == "journal":
        return QueueSuffix.JOURNAL, None
    if span.lower in RESERVED:
        raise span.illegal(f"{span.text} cannot follow the name of a queue")
    return QueueSuffix.NONE, subqueue_name(span, lenient=lenient)
