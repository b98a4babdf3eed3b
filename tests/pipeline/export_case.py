"""A store with queues and a directory for its exported files, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessage,
    PutQueue,
    PutState,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.pipeline.files.exporter import Exported, Exporter, export_request, store_at
from tests.builders import ALPHA, BETA, user_packet
from tests.cli.support import CommandTestCase
from tests.pipeline import stores

ORDERS = QueueDefinition(identifier=UUID(int=0xA), path="private$\\orders", number=16, log=True)
JOURNAL = QueueDefinition(
    identifier=UUID(int=0xB), path="private$\\orders;journal", type=QueueType.SYSTEM, parent=UUID(int=0xA)
)
DEAD = QueueDefinition(identifier=UUID(int=0xC), path="system$;deadletter", type=QueueType.SYSTEM)
OUTGOING = QueueDefinition(
    identifier=UUID(int=0xD), path="DIRECT=OS:beta\\private$\\x", type=QueueType.OUTGOING
)
MORNING = 1_700_000_000.0
DAY = 86_400
DAMAGED = b"no packet at all"
PROJECT = Path(__file__).resolve().parent.parent.parent


def packet(number: int) -> bytes:
    return user_packet(b"body %d" % number, message_id=number, recoverable=True, source=BETA)


def put(
    number: int, queue: QueueDefinition = ORDERS, *, priority: int = 3, content: bytes | None = None
) -> PutMessage:
    place = (7 - priority) << 56 | number
    return PutMessage(
        queue.identifier, place, packet(number) if content is None else content, MORNING + number * DAY / 4
    )


def log(number: int) -> AppendLog:
    return AppendLog(ORDERS.identifier, number, packet(number), MORNING + number * DAY / 4)


def event(number: int) -> AppendEvent:
    whose = BETA.bytes_le + number.to_bytes(4, "little")
    return AppendEvent(MORNING + number * DAY / 4, whose, "expired", "too late", 0x8002, ORDERS.path)


class ExportTestCase(CommandTestCase):
    """A store with queues, and a directory for files."""

    def setUp(self) -> None:
        self.data = Path(self.mktemp())
        self.data.mkdir()
        self.directory = Path(self.mktemp())
        self.write(
            [PutState("queue_manager", ALPHA.bytes), *map(PutQueue, (ORDERS, JOURNAL, DEAD, OUTGOING))]
        )

    def write(self, *batches: Sequence[Change]) -> None:
        """Have the store change, as its server does it."""
        stores.write_log(self.data, *batches)

    def export(
        self,
        *names: str,
        log: bool = False,
        on_rows: Callable[[int], None] = lambda rows: None,
        **options: Any,
    ) -> list[Exported]:
        with store_at(str(self.data)) as store:
            exporter = Exporter(store, self.directory, on_rows=on_rows, **options)
            return list(exporter.run([export_request(store, name, log=log) for name in names]))

    @property
    def files(self) -> list[str]:
        """Everything in the directory, by its path."""
        return sorted(
            str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file()
        )

    def rows(self, column: str = "offset", pattern: str = "*") -> list[Any]:
        """A column of all files, in the order of their names."""
        found: list[Any] = []
        for path in sorted(self.directory.rglob(f"{pattern}.parquet"), key=lambda path: path.name):
            found += pyarrow.parquet.read_table(path, partitioning=None).column(column).to_pylist()
        return found
