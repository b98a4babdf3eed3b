"""The demo of the pipeline: the meddler reports exactly what it does and edits."""

from __future__ import annotations

from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import session_header, user_packet
from tests.project.example_files import example


class MeddlerTests(SynchronousTestCase):
    """Faults injected into express messages."""

    def setUp(self) -> None:
        self.demo = example("demo_meddler")

    def test_mischief(self) -> None:
        """As many messages come as were sent; the lost, repeated and swapped ones are reported exactly."""
        mischief = self.demo.Mischief(lose=5, swap=3)
        sent = [user_packet(b"", message_id=number) for number in range(1, 101)]
        came: list[bytes] = []
        for first, last in ((0, 1), (1, 3), (3, 40), (40, 97), (97, 100)):
            came += mischief.meddle(sent[first:last])
        self.assertEqual((len(came), mischief.packets), (100, sent))
        numbers = [UserMessageView(packet).message_id for packet in came]
        names = [self.demo.identifier(packet) for packet in came]
        everyone = [self.demo.identifier(packet) for packet in sent]
        self.assertEqual([name for name in everyone if name not in names], mischief.lost)
        self.assertEqual(
            {name: often for name, often in Counter(names).items() if often > 1}, mischief.repeated
        )
        highest, late = 0, []
        for place, number in enumerate(numbers):
            if number < highest and number not in numbers[:place]:
                late.append(names[place])
            highest = max(highest, number)
        self.assertEqual(late, mischief.swapped)
        self.assertTrue(mischief.lost and mischief.repeated and mischief.swapped)

    def test_header_rides_on(self) -> None:
        """A packet whose SessionHeader was taken off has it again."""
        header = session_header(received=7)
        packet = user_packet(b"x")
        self.assertEqual(self.demo._with_header(packet, header), user_packet(b"x", header=header))


class EditingTests(SynchronousTestCase):
    """Changes of exported records."""

    def setUp(self) -> None:
        self.demo = example("demo_pipeline")

    def test_edit(self) -> None:
        """Removed, repeated and swapped records are reported exactly; offsets increase without gaps."""
        directory = Path(self.mktemp())
        directory.mkdir()
        names = [f"{number:05}" for number in range(5000)]
        table = pyarrow.table({"id": names[::-1], "offset": list(range(5000, 0, -1))})
        parquet.write_table(table, directory / "records.parquet")
        done = example("demo_edited_records").edit(
            directory / "records.parquet", directory / "edited.parquet"
        )
        edited = parquet.read_table(directory / "edited.parquet").to_pydict()
        came = edited["id"]
        self.assertEqual(edited["offset"], list(range(1, len(came) + 1)))
        self.assertEqual([name for name in names if name not in came], done.removed)
        self.assertEqual([name for name, often in Counter(came).items() if often > 1], done.repeated)
        late = [name for name, one in zip(came[1:], came, strict=False) if name < one]
        self.assertEqual(late, done.swapped)
        self.assertTrue(done.removed and done.repeated and done.swapped)

    def test_verdict(self) -> None:
        """Findings without a fault, faults without a finding, and wrong counts are violations."""
        verdict: Any = self.demo.Verdict()
        out = StringIO()
        with redirect_stdout(out):
            verdict.compare("losses", ["a", "b"], ["b", "a"])
            self.assertEqual(verdict.wrong, [])
            verdict.compare("doubles", ["a", "a"], ["a", "c"])
        self.assertEqual(
            verdict.wrong, ["doubles: 2 injected, 2 found, 1 of the first are missing, 1 are too many"]
        )
        self.assertIn("as injected", out.getvalue())
        self.assertIn("WRONG", out.getvalue())
