"""An erasure that is killed between two of its steps, and is then repeated."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from pyarrow.parquet import ParquetFile

from msmq.persistence.changes import AppendLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.erasures import ErasureRecord, ErasuresSummary
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.exporter import store_at
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from tests.builders import ALPHA, user_packet
from tests.pipeline.archive.archive_case import ArchiveTestCase
from tests.pipeline.stores import ARRIVED, ORDERS

GONE = (3, 4, 5)
CONDITION = "label >= 'tx 3' and label <= 'tx 5'"


def read_column(path: Path, name: str) -> list[Any]:
    """The values of a column of a Parquet file; none if the file lacks it."""
    with ParquetFile(path) as file:
        return [row[name] for row in file.read(columns=[name]).to_pylist() if name in row]


class Killed(BaseException):
    """The process ends here."""


class KilledErasureTests(ArchiveTestCase):
    """Transactional messages of a log in several files, of which some are erased."""

    def setUp(self) -> None:
        """Two files of the log, one of them in Parquet."""
        super().setUp()
        self.write(*(self.transactional(number) for number in range(1, 5)))
        self.update()
        self.compact()
        self.write(*(self.transactional(number) for number in range(5, 7)))
        self.update()
        self.kept = self.directory.with_name("kept")
        shutil.copytree(self.directory, self.kept)

    def begin_again(self) -> None:
        """Let the archive be as it was before any erasure."""
        shutil.rmtree(self.directory)
        shutil.copytree(self.kept, self.directory)

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

    def killed_after(self, steps: int, error: type[BaseException] = Killed) -> bool:
        """Erase, and kill the process at the step that follows these; whether that came.

        @param error: another one is raised by this step alone, and the process runs on.
        """
        done = 0

        def counted(step: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal done
                if done == steps:
                    done += error is not Killed
                    raise error
                done += 1
                return step(*arguments, **named)

            return call

        names = ("open", "fsync", "replace", "unlink")
        patches = [self.patch(os, name, counted(getattr(os, name))) for name in names]
        try:
            self.erase()
        except error:
            return True
        finally:
            for patch in patches:
                patch.restore()
        return False

    def state(self) -> dict[str, Any]:
        """What an operator and the jobs see of the erasure."""
        numbers = [
            number
            for path in self.directory.glob("_erased/*.parquet")
            for number in read_column(path, "sequence_number")
        ]
        identifiers = [
            identifier
            for path in self.directory.glob("_erased_identifiers/*.parquet")
            for identifier in read_column(path, "id")
        ]
        log = next(each for each in self.archive.streams() if each.stream == "log" and each.erased)
        left = sorted(
            label
            for path in self.directory.rglob("*.parquet")
            if "_erased" not in path.parts
            for label in read_column(path, "label")
            if label and label.startswith("tx ")
        )
        return {
            "numbers": numbers,
            "erased": log.erased,
            "left": [label for label in left if label in {f"tx {number}" for number in GONE}],
            "identifiers": identifiers,
            "recorded": sum(sum(record["rows"].values()) for record in self.records()),
            "summary": ErasureRecord(self.archive).summary(),
        }

    def records(self) -> list[dict[str, Any]]:
        """The record of erasures."""
        lines = (self.directory / "_erasures.jsonl").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def test_each_step(self) -> None:
        """At any step that it was killed, a repeated erasure leaves what one that was not killed leaves, and
        each erased row is recorded once.
        """
        wanted = {
            "numbers": [*GONE],
            "identifiers": [rf"{{{str(ALPHA).upper()}}}\{200 + number}" for number in GONE],
            "erased": 3,
            "left": [],
            "recorded": 3,
            "summary": ErasuresSummary(3, 0, 0),
        }
        steps = 0
        while True:
            with self.subTest(steps=steps):
                self.begin_again()
                is_killed = self.killed_after(steps)
                self.erase()
                self.erase()
                self.assertEqual(self.state(), wanted, steps)
            if not is_killed:
                break
            steps += 1
        self.assertGreater(steps, 5)

    def test_the_record_without_a_repetition(self) -> None:
        """At any step that an erasure was killed, the next pass of the archiver records the rows that it has
        removed, as those of an interrupted one; another pass adds nothing.
        """
        steps, kinds = 0, set[bool]()
        while True:
            with self.subTest(steps=steps):
                self.begin_again()
                is_killed = self.killed_after(steps)
                self.update()
                self.update()
                erased = sum(each.erased for each in self.archive.streams())
                records = self.records() if (self.directory / "_erasures.jsonl").exists() else []
                self.assertEqual(sum(sum(each["rows"].values()) for each in records), erased, steps)
                self.assertFalse((self.directory / "_erasing.json").exists())
                kinds.update(each.get("interrupted", False) for each in records)
                self.assertEqual(ErasureRecord(self.archive).summary(), ErasuresSummary(erased, 0, 0))
            if not is_killed:
                break
            steps += 1
        self.assertEqual(kinds, {False, True})

    def test_what_a_killed_erasure_leaves_on_the_disk(self) -> None:
        """The next pass of an archiver that runs on removes each file that no manifest names: one that was
        replaced still has erased rows, and readers of Parquet alone see rows of another twice.
        """
        steps, was_left = 0, False
        with store_at(str(self.data)) as store:
            while True:
                with self.subTest(steps=steps):
                    self.begin_again()
                    archiver = Archiver(store, self.archive, clock=lambda: self.now)
                    archiver.run()
                    is_killed = self.killed_after(steps)
                    was_left |= self.files() != self.named()
                    archiver.run()
                    self.assertEqual(self.files(), self.named(), steps)
                if not is_killed:
                    break
                steps += 1
        self.assertTrue(was_left)

    def test_what_an_interrupted_erasure_leaves_on_the_disk(self) -> None:
        """One that Ctrl-C ends removes each file that no manifest names, or else the next pass does."""
        steps = 0
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            archiver.run()
            while True:
                with self.subTest(steps=steps):
                    self.begin_again()
                    is_interrupted = self.killed_after(steps, KeyboardInterrupt)
                    archiver.run()
                    self.assertEqual(self.files(), self.named(), steps)
                    self.assertFalse((self.directory / "_erasing.json").exists())
                if not is_interrupted:
                    break
                steps += 1
        self.assertGreater(steps, 5)

    def files(self) -> set[str]:
        """The files with rows, relative to the archive."""
        found = {*self.directory.rglob("date=*/*.parquet"), *self.directory.rglob("*.arrow")}
        return {path.relative_to(self.directory).as_posix() for path in found}

    def named(self) -> set[str]:
        """The files that the manifests name."""
        manifests = self.archive.streams()
        current = {file.path for each in manifests for file in each.files}
        return current | {path for each in manifests for path, _ in each.retired}
