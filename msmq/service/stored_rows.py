"""Reads the store of a running server for readers on other machines, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorFromThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from msmq.control.protocol.refusals import StoredRowUnreadable, too_many
from msmq.interfaces.storage import StorageError
from msmq.interfaces.stored_rows import IStoredRows, StoredRowsAnswer
from msmq.persistence.definition import QueueDefinition
from msmq.storage.readers import LOG_DIRECTORY, STORE_FILE, RowDamaged, StoreReader, open_reader
from msmq.structures.status import MQError, Status

WAITING: Final = 16
"""Limit on calls that wait for the thread."""
IDLE: Final = 60.0
"""Seconds without a call after which the reader is closed."""

_FILES: Final = {"sqlite": STORE_FILE, "log": LOG_DIRECTORY}


def location_of_store(description: str, data: Path) -> Path | None:
    """The files of a store, for external readers; C{None} for a store without files.

    @param description: of the store, as in the configuration.
    """
    name, _, argument = description.partition(":")
    return data / (argument or _FILES[name]) if name in _FILES else None


@implementer(IStoredRows)
class StoredRows:
    """Answers calls of remote readers, one after the other.

    @param location: the files of the store; C{None} if it has none.
    """

    def __init__(self, location: Path | None, reactor: Any) -> None:
        self._location = location
        self._reactor: Any = reactor
        self._time = IReactorTime(reactor)
        self._pool: ThreadPool | None = None
        self._reader: StoreReader | None = None
        self._waiting = 0
        self._idle: IDelayedCall | None = None
        self._is_stopped = False

    def ask(self, call: str, arguments: Mapping[str, Any]) -> Deferred[StoredRowsAnswer]:
        """See L{IStoredRows.ask}."""
        answer: Deferred[StoredRowsAnswer] = Deferred(lambda _: None)
        if self._location is None:
            answer.errback(_refusal("the store of this server has no files: connect to its database"))
            return answer
        if find_spec("pyarrow") is None:
            answer.errback(_refusal("the server lacks pyarrow: pip install 'msmq[parquet]' there"))
            return answer
        if self._is_stopped:
            answer.errback(_refusal("the server stops"))
            return answer
        if self._waiting >= WAITING:
            answer.errback(too_many("calls of remote readers", WAITING))
            return answer
        self._waiting += 1
        self._stay_open()
        reading = deferToThreadPool(
            IReactorFromThreads(self._reactor), self._started(), self._answer, call, dict(arguments)
        )
        reading.addBoth(self._answered)
        # A caller that goes away does not end the call in the thread.
        reading.addCallbacks(answer.callback, answer.errback)
        return answer

    def stop(self) -> None:
        """End the thread, after the calls that it has; further ones are refused."""
        self._is_stopped = True
        if self._idle is not None and self._idle.active():
            self._idle.cancel()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.callInThread(self._close)
            pool.stop()

    def _started(self) -> ThreadPool:
        if self._pool is None:
            # One thread, since a reader belongs to one, and so that it takes little from the server.
            self._pool = ThreadPool(0, 1, "msmq stored rows")
            self._pool.start()
        return self._pool

    def _answered(self, outcome: StoredRowsAnswer | Failure) -> StoredRowsAnswer | Failure:
        self._waiting -= 1
        if isinstance(outcome, Failure) and isinstance(outcome.value, RowDamaged):
            return Failure(StoredRowUnreadable(str(outcome.value), outcome.value.number))
        if isinstance(outcome, Failure) and outcome.check(StorageError):
            return Failure(MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, str(outcome.value)))
        return outcome

    def _stay_open(self) -> None:
        if self._idle is not None and self._idle.active():
            self._idle.reset(IDLE)
        else:
            self._idle = self._time.callLater(IDLE, self._rest)

    def _rest(self) -> None:
        if self._pool is not None:
            self._pool.callInThread(self._close)

    # Below: in the thread.

    def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _answer(self, call: str, arguments: dict[str, Any]) -> StoredRowsAnswer:
        assert self._location is not None
        if self._reader is None:
            self._reader = open_reader(str(self._location))
        found = getattr(self._reader, call)(**arguments)
        encode = _ENCODERS.get(call)
        return StoredRowsAnswer(found) if encode is None else encode(found)


def _refusal(reason: str) -> MQError:
    return MQError(Status.MQ_ERROR_UNSUPPORTED_OPERATION, reason)


def _page(kind: str) -> Callable[[Any], StoredRowsAnswer]:
    def encode(page: Any) -> StoredRowsAnswer:
        # A server that no reader asks imports nothing of Arrow.
        from msmq.storage.readers.pages_in_arrow import encoded_page

        return StoredRowsAnswer(rows=encoded_page(kind, page.rows, page.next))

    return encode


def _events(found: Any) -> StoredRowsAnswer:
    from msmq.storage.readers.pages_in_arrow import encoded_page, event_rows

    events, following = found
    return StoredRowsAnswer(rows=encoded_page("events", event_rows(events), following))


def _queues(found: list[QueueDefinition]) -> StoredRowsAnswer:
    return StoredRowsAnswer([_definition(one) for one in found])


def _definition(one: QueueDefinition) -> dict[str, Any]:
    """What readers use of a queue; its access list is not among it."""
    return {
        "identifier": str(one.identifier),
        "path": one.path,
        "number": one.number,
        "type": one.type.value,
        "transactional": one.transactional,
        "journal": one.journal,
        "log": one.log,
        "quota": one.quota,
        "journal_quota": one.journal_quota,
        "parent": None if one.parent is None else str(one.parent),
    }


_ENCODERS: Final[Mapping[str, Callable[[Any], StoredRowsAnswer]]] = {
    "messages": _page("messages"),
    "message_rows": _page("message_rows"),
    "log": _page("log"),
    "events": _events,
    "queues": _queues,
}
