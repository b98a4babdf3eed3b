"""An erasure that is killed between two of its steps, and is then repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs
from pyarrow import parquet

from msmq.persistence.changes import AppendLog
from msmq.pipeline.archive.erased import unnumbered
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from tests.builders import user_packet
from tests.pipeline.archive.archive_case import ArchiveTestCase
from tests.pipeline.stores import ARRIVED, ORDERS

GONE = (3, 4, 5)
CONDITION = "label >= 'tx 3' and label <= 'tx 5'"


class Killed(BaseException):
    """The process ends here."""


class KilledErasureTests(ArchiveTestCase):
    """Transactional messages of a log in several files, of which some are erased."""

    def write_messages(self) -> None:
        """Two files of the log, one of them in Parquet."""
        self.write(*(self.transactional(number) for number in range(1, 5)))
        self.update()
        self.compact()
        self.write(*(self.transactional(number) for number in range(5, 7)))
        self.update()

    def transactional(self, number: int) -> AppendLog:
        """A transactional message in the log of orders."""
        packet = UserMessage.from_bytes(
            user_packet(b"x", label=f"tx {number}", message_id=200 + number, recoverable=True)
        )
        header = TransactionHeader(TxSequenceID(7, 0), number, number - 1)
        content = attrs.evolve(packet, transaction=header).to_bytes()
        return AppendLog(ORDERS.identifier, 200 + number, content, ARRIVED + 40 + number)

    def erase(self) -> None:
        erase(self.archive, parse_condition(CONDITION), self.now)

    def killed_after(self, steps: int) -> bool:
        """Erase, and kill the process at the step that follows these; whether that came."""
        done = 0

        def counted(step: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal done
                if done == steps:
                    raise Killed
                done += 1
                return step(*arguments, **named)

            return call

        patches = [
            self.patch(os, name, counted(getattr(os, name))) for name in ("fsync", "replace", "unlink")
        ]
        try:
            self.erase()
        except Killed:
            return True
        finally:
            for patch in patches:
                patch.restore()
        return False

    def state(self) -> dict[str, Any]:
        """What an operator and the jobs see of the erasure."""
        numbers = [
            row["sequence_number"]
            for path in self.directory.glob("_erased/*.parquet")
            for row in parquet.read_table(path).to_pylist()
        ]
        log = next(each for each in self.archive.streams() if each.stream == "log" and each.erased)
        left = sorted(
            label
            for path in self.directory.rglob("*.parquet")
            if "_erased" not in path.parts
            for label in parquet.read_table(path).to_pydict().get("label", ())
            if label and label.startswith("tx ")
        )
        return {
            "numbers": numbers,
            "erased": log.erased,
            "left": [label for label in left if label in {f"tx {number}" for number in GONE}],
            "unnumbered": unnumbered(self.archive),
        }

    def test_each_step(self) -> None:
        """At any step that it was killed, a repeated erasure leaves what one that was not killed leaves."""
        wanted = {"numbers": [*GONE], "erased": 3, "left": [], "unnumbered": 0}
        steps = 0
        while True:
            with self.subTest(steps=steps):
                self.setUp()
                self.write_messages()
                is_killed = self.killed_after(steps)
                self.erase()
                self.erase()
                self.assertEqual(self.state(), wanted, steps)
            if not is_killed:
                break
            steps += 1
        self.assertGreater(steps, 5)
