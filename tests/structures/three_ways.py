"""Parse a structure from its whole bytes, from every prefix, and with trailing bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


class Structure(Protocol):
    """Common interface of structures."""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read one."""

    def write(self, writer: Writer) -> None:
        """Write one."""


def written(value: Structure) -> bytes:
    """The bytes of C{value}."""
    writer = Writer()
    value.write(writer)
    return writer.getvalue()


def assert_read_three_ways(case: SynchronousTestCase, value: Structure) -> None:
    """Assert that C{value} is read from its bytes, from no strict prefix, and without trailing bytes."""
    data = written(value)
    reader = Reader(data + b"\xff" * 9)
    case.assertEqual(type(value).read(reader), value)
    case.assertEqual(reader.position, len(data))
    for size in range(len(data)):
        with case.assertRaises(RemoteProtocolError):
            type(value).read(Reader(data[:size]))


def assert_only_remote_errors(read: Callable[[Reader], object], data: bytes) -> None:
    """Reading C{data} gives a value or the one error that a peer can cause."""
    try:
        read(Reader(data))
    except RemoteProtocolError:
        pass
