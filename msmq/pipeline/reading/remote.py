"""Reader of a store on another machine, through the control endpoint of its server."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from msmq.control.client.client import ControlClient
from msmq.control.protocol.refusals import StoredRowUnreadable
from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.storage.readers import RowDamaged, RowPage
from msmq.storage.readers.pages_in_arrow import events_of_stream, page_of
from msmq.structures.status import MQError, Status

PATIENCE: Final = 600.0
"""Seconds that a server may be silent, or busy with other calls; the index of a large log takes a while."""

_PAUSES: Final = (0.05, 1.0)
"""The first and the longest pause before a call is repeated, in seconds."""

_Answer = TypeVar("_Answer")


class _RequestRefused(StorageError):
    """The server does not know the call, or not one of its arguments."""


class RemoteStoreReader:
    """See L{StoreReader<msmq.storage.readers.shape.StoreReader>}.

    A server that lets no further call wait is asked again, since a cluster may have more tasks than that.

    @param text: the location, for people.
    @param monotonic: the time of a clock that is never set, in seconds.
    @param sleep: waits for this number of seconds.
    """

    def __init__(
        self,
        client: ControlClient,
        text: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.text = text
        self.bytes_read = 0
        self._client = client
        self._monotonic = monotonic
        self._sleep = sleep

    def hold(self) -> None:
        """Refuse: each call reads the present state."""
        raise StorageError(f"{self.text}: a remote store cannot be held; read it on its machine")

    def skip_logged(self, starts: Mapping[UUID, int]) -> None:
        """Nothing: the server reads what is asked for alone.

        See L{StoreReader.skip_logged<msmq.storage.readers.shape.StoreReader.skip_logged>}.
        """

    def identifier(self) -> str:
        """See L{StoreReader.identifier<msmq.storage.readers.shape.StoreReader.identifier>}."""
        return str(self._value("identifier"))

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreReader.queues<msmq.storage.readers.shape.StoreReader.queues>}."""
        try:
            return [_definition(record) for record in self._value("queues")]
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{self.text}: its answer has an invalid queue: {error}") from None

    def values(self) -> dict[str, bytes]:
        """Refuse: the state of a queue manager has its keys."""
        raise StorageError(f"{self.text}: the state of a queue manager cannot be read remotely")

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages<msmq.storage.readers.shape.StoreReader.messages>}."""
        return self._page("messages", queue, begin, end, since=since, until=until, bodies=bodies)

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        """See L{StoreReader.message_rows<msmq.storage.readers.shape.StoreReader.message_rows>}."""
        try:
            data = self._rows("message_rows", {"queue": str(queue), "begin": begin})
        except _RequestRefused:
            # A server of an earlier version does not know the call.
            page = self.messages(queue, begin, 1 << 64, since=None, until=None, bodies=False)
            return RowPage([(*row[:5], len(row[5])) for row in page.rows], page.next)
        return page_of("message_rows", data, self.text)

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.log<msmq.storage.readers.shape.StoreReader.log>}."""
        return self._page("log", queue, begin, end, since=since, until=until, bodies=bodies)

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreReader.events<msmq.storage.readers.shape.StoreReader.events>}."""
        data = self._page_rows("events", {"begin": begin, "end": end}, begin, end)
        return events_of_stream(data, self.text)

    def message_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.message_cuts<msmq.storage.readers.shape.StoreReader.message_cuts>}."""
        return self._cuts("message_cuts", queue, begin, end, rows)

    def log_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.log_cuts<msmq.storage.readers.shape.StoreReader.log_cuts>}."""
        return self._cuts("log_cuts", queue, begin, end, rows)

    def places(self, kind: str, queue: UUID, begin: int, end: int) -> bytes:
        """See L{StoreReader.places<msmq.storage.readers.shape.StoreReader.places>}: there are none."""
        return b""

    def packets(self, places: Sequence[tuple[int, int, int]], bodies: bool) -> list[bytes]:
        """See L{StoreReader.packets<msmq.storage.readers.shape.StoreReader.packets>}."""
        raise NotImplementedError("a remote store has no places")

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreReader.log_bounds<msmq.storage.readers.shape.StoreReader.log_bounds>}."""
        first, last = self._value("log_bounds", queue=str(queue))
        return int(first), int(last)

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreReader.event_bounds<msmq.storage.readers.shape.StoreReader.event_bounds>}."""
        first, last = self._value("event_bounds")
        return int(first), int(last)

    def log_end(self) -> int:
        """See L{StoreReader.log_end<msmq.storage.readers.shape.StoreReader.log_end>}."""
        return int(self._value("log_end"))

    def log_since(self, queue: UUID, time: float) -> int | None:
        """See L{StoreReader.log_since<msmq.storage.readers.shape.StoreReader.log_since>}."""
        return _number(self._value("log_since", queue=str(queue), time=time))

    def event_since(self, time: float) -> int | None:
        """See L{StoreReader.event_since<msmq.storage.readers.shape.StoreReader.event_since>}."""
        return _number(self._value("event_since", time=time))

    def log_after(
        self, queues: Sequence[UUID], begin: int, rows: int | None, size: int | None = None
    ) -> int | None:
        """See L{StoreReader.log_after<msmq.storage.readers.shape.StoreReader.log_after>}."""
        named = [str(queue) for queue in queues]
        return _number(self._value("log_after", queues=named, begin=begin, rows=rows, size=size))

    def is_reusable(self) -> bool:
        """No: nothing is kept that would spare work.

        See L{StoreReader.is_reusable<msmq.storage.readers.shape.StoreReader.is_reusable>}.
        """
        return False

    def close(self) -> None:
        """No operation: each call has a connection of its own."""

    def _value(self, call: str, **arguments: object) -> Any:
        return self._answered(lambda: self._client.store_value(call, arguments))

    def _rows(self, call: str, arguments: Mapping[str, object]) -> bytes:
        found = self._answered(lambda: self._client.store_rows(call, arguments))
        self.bytes_read += len(found)
        return found

    def _page_rows(self, call: str, arguments: Mapping[str, object], begin: int, end: int) -> bytes:
        try:
            return self._rows(call, arguments)
        except RowDamaged as error:
            if begin <= error.number < end:
                raise
            # The rows after this one are read next: the answer must not lead back.
            raise StorageError(f"{error}, which is row {error.number} of {begin} to {end - 1}") from None

    def _answered(self, ask: Callable[[], _Answer]) -> _Answer:
        deadline, (pause, longest) = self._monotonic() + PATIENCE, _PAUSES
        while True:
            try:
                return ask()
            except MQError as error:
                is_busy = error.status is Status.MQ_ERROR_INSUFFICIENT_RESOURCES
                if not is_busy or self._monotonic() >= deadline:
                    raise self._failure(error) from None
            self._sleep(pause)
            pause = min(2 * pause, longest)

    def _failure(self, error: MQError) -> StorageError:
        if isinstance(error, StoredRowUnreadable):
            return RowDamaged(f"{self.text}: {error.detail}", error.number)
        is_refused = error.status is Status.MQ_ERROR_INVALID_PARAMETER
        return (_RequestRefused if is_refused else StorageError)(f"{self.text}: cannot read: {error}")

    def _page(self, call: str, queue: UUID, begin: int, end: int, **how: object) -> RowPage:
        arguments = {"queue": str(queue), "begin": begin, "end": end, **how}
        return page_of(call, self._page_rows(call, arguments, begin, end), self.text)

    def _cuts(self, call: str, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        cuts, rest = self._value(call, queue=str(queue), begin=begin, end=end, rows=rows)
        return [int(cut) for cut in cuts], int(rest)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _definition(record: Mapping[str, Any]) -> QueueDefinition:
    parent = record["parent"]
    return QueueDefinition(
        identifier=UUID(record["identifier"]),
        path=str(record["path"]),
        number=int(record["number"]),
        type=QueueType(record["type"]),
        transactional=bool(record["transactional"]),
        journal=bool(record["journal"]),
        log=bool(record["log"]),
        quota=int(record["quota"]),
        journal_quota=int(record["journal_quota"]),
        parent=None if parent is None else UUID(parent),
    )
