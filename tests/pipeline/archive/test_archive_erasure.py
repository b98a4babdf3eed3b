"""What is erased from an archive, and what is not."""

from __future__ import annotations

import json

import attrs
from pyarrow import parquet

from msmq.persistence.changes import AppendLog
from msmq.pipeline.archive.erased import COLUMNS, IDENTIFIER_COLUMNS
from msmq.pipeline.archive.erasures import ErasureRecord, ErasuresSummary
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.upkeep import erase
from msmq.pipeline.archive.where import parse_condition
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from tests.builders import BETA, user_packet
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase
from tests.pipeline.stores import ARRIVED, DEAD, ORDERS


class ErasureTests(ArchiveTestCase):
    """Rows are erased for good."""

    def erase(self, condition: str, *, dry_run: bool = False) -> dict[str, int]:
        return erase(self.archive, parse_condition(condition), self.now, dry_run=dry_run)

    def test_erased_rows_are_gone_and_stay_away(self) -> None:
        """From every file, also those that a merge has replaced; the others stay."""
        self.update()
        self.compact()
        self.write(stores.put(93, DEAD), stores.put(94, DEAD))
        self.update()
        gone = [("dead_letter", ".\\system$;deadletter", number) for number in (35, 93)]
        for dry_run in (True, False):
            found = self.erase("topic = '.\\system$;deadletter' and offset != 94", dry_run=dry_run)
            self.assertEqual({".\\system$;deadletter dead_letter": 2}, found)
        self.update()
        left = ("dead_letter", ".\\system$;deadletter", 94)
        self.assert_complete(left, without=gone[:1])
        self.assertEqual({}, self.erase("offset = 93"))
        for path in self.directory.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"body 93", path.read_bytes(), path)

    def test_a_copy_of_an_archive_in_use(self) -> None:
        """It may lack replaced files, which no reader needs; those that are there are erased from."""
        self.update()
        self.compact()
        gone, *_ = fresh = sorted((self.directory / "_fresh").glob("private-orders-*.arrow"))
        self.assertEqual(1, len(fresh))
        gone.unlink()
        self.erase("label = 'message 3'")
        self.assertEqual(28, sum(self.archived().values()))

    def test_the_record_of_an_erasure_has_no_values(self) -> None:
        """It would keep what had to be erased."""
        self.update()
        self.erase("label = 'message 3' and sent_time < '2030-01-01'")
        [line] = (self.directory / "_erasures.jsonl").read_text().splitlines()
        record = json.loads(line)
        self.assertEqual(["label", "sent_time"], record["columns"])
        self.assertEqual({".\\private$\\orders log": 1}, record["rows"])
        self.assertNotIn("message 3", line)

    def test_numbers_of_erased_messages(self) -> None:
        """Of transactional messages their numbers remain, and nothing else, until they expire."""
        self.write(*(self.transactional(number) for number in range(1, 5)))
        self.update()
        for condition in ("label = 'tx 2'", "label = 'tx 3'", "label = 'message 5'"):
            self.erase(condition)
        [path] = self.directory.glob("_erased/*.parquet")
        found = parquet.read_table(path).to_pylist()
        self.assertEqual([(row["sequence_number"], row["previous"]) for row in found], [(2, 1), (3, 2)])
        self.assertEqual(set(found[0]), {name for name, _ in COLUMNS})
        self.assertNotIn(b"tx 2", path.read_bytes())
        self.assertEqual(ErasuresSummary(3, 0, 0), self.summary())
        self.now += 3 * DAY
        self.write(*(self.transactional(number, 3 * DAY) for number in (5, 6)))
        self.update(keep_days=1)
        self.erase("label = 'tx 5'")
        self.assertEqual([row["sequence_number"] for row in parquet.read_table(path).to_pylist()], [5])

    def summary(self) -> ErasuresSummary:
        return ErasureRecord(self.archive).summary()

    def test_records_of_earlier_versions(self) -> None:
        """What they have not kept is counted as unknown, also where a power failure has cut off a line; the
        next erasure adds a line that can be read.
        """
        self.update()
        for number in range(3, 7):
            self.erase(f"label = 'message {number}'")
        path = self.directory / "_erasures.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        del records[0]["identifiers"], records[1]["identifiers"], records[1]["numbers"]
        *lines, last = map(json.dumps, records)
        path.write_text("\n".join(lines) + "\n" + last[:40])
        self.assertEqual(ErasuresSummary(4, 2, 3), self.summary())
        self.erase("label = 'message 7'")
        self.assertEqual(ErasuresSummary(5, 2, 3), self.summary())
        *_, torn, new = path.read_text().splitlines()
        self.assertEqual((torn, json.loads(new)["rows"]), (last[:40], {".\\private$\\orders log": 1}))

    def test_identifiers_of_erased_messages(self) -> None:
        """Of each erased row the message that it is about remains, and the date, until rows of that date have
        expired; of the rows themselves nothing.
        """
        content = UserMessage.from_bytes(stores.packet(40, message_class=0x4000))
        about = attrs.evolve(content.properties, correlation_id=BETA.bytes_le + (99).to_bytes(4, "little"))
        content = attrs.evolve(content, properties=about)
        self.write(AppendLog(ORDERS.identifier, 40, content.to_bytes(), ARRIVED + 40))
        self.update()
        for condition in ("label = 'message 40'", "label = 'message 3'", "topic = 'events' and offset = 2"):
            self.erase(condition)
        self.erase("topic = '.\\system$;deadletter'")
        direct = "DIRECT=OS:beta\\private$\\orders"
        left = [
            ("dead_letter", ".\\system$;deadletter", self.name_of(35), direct, "2023-11-14"),
            ("events", "events", self.name_of(2), ".\\private$\\orders", "2023-11-14"),
            ("log", ".\\private$\\orders", self.name_of(3), direct, "2023-11-14"),
            ("log", ".\\private$\\orders", self.name_of(99), None, "2023-11-14"),
        ]
        self.assertEqual(left, self.identifiers())
        for path in self.directory.glob("_erased_identifiers/*"):
            self.assertNotIn(b"message", path.read_bytes())
        self.now += 3 * DAY
        self.update(keep_days=4)
        self.assertEqual(left, self.identifiers())
        self.update(keep_days=1)
        self.assertEqual([], self.identifiers())

    def test_identifiers_of_dates_without_other_rows(self) -> None:
        """They remain at later erasures: without C{keep_days} nothing expires."""
        self.update()
        self.now += 3 * DAY
        self.write(*(self.transactional(number, 3 * DAY) for number in (1, 2)))
        self.update()
        for condition in ("topic = '.\\private$\\orders' and offset <= 20", "label = 'tx 1'"):
            self.erase(condition)
        self.assertEqual(["2023-11-14"] * 20 + ["2023-11-17"], sorted(row[4] for row in self.identifiers()))

    def name_of(self, number: int) -> str:
        """The identifier of a message."""
        return f"{{{str(BETA).upper()}}}\\{number}"

    def identifiers(self) -> list[tuple[str, ...]]:
        """What remains of erased rows."""
        names = [name for name, _ in IDENTIFIER_COLUMNS]
        found = []
        for path in sorted(self.directory.glob("_erased_identifiers/*.parquet")):
            table = parquet.read_table(path)
            self.assertEqual(names, table.schema.names)
            found += [tuple(row.values()) for row in table.to_pylist()]
        return sorted(found, key=repr)

    def transactional(self, number: int, later: float = 0.0) -> AppendLog:
        """A transactional message in the log of orders."""
        packet = UserMessage.from_bytes(
            user_packet(b"x", label=f"tx {number}", message_id=200 + number, recoverable=True)
        )
        header = TransactionHeader(TxSequenceID(7, 0), number, number - 1)
        content = attrs.evolve(packet, transaction=header).to_bytes()
        return AppendLog(ORDERS.identifier, 200 + number, content, ARRIVED + 40 + number + later)

    def test_conditions(self) -> None:
        """Each comparison, each type, and null, which nothing is equal to."""
        self.update()
        for condition, expected in (
            ("offset < 3", 4),
            ("offset <= 3 AND topic = 'events'", 3),
            ("offset > 19 and topic != 'events' and transactional = false", 5),
            ("offset >= 20 and class = 0", 5),
            ("label = 'it''s'", 0),
            ("sent_time >= '2023-11-14T22:13:38'", 7),
            ("abort_count != 1", 0),
        ):
            self.assertEqual(expected, sum(self.erase(condition, dry_run=True).values()), condition)

    def test_invalid_conditions(self) -> None:
        """One line names what is wrong."""
        self.update()
        for condition, reason in (
            ("", "must be COLUMN = VALUE"),
            ("offset", "must be COLUMN = VALUE"),
            ("offset = 3 or offset = 4", "'or' instead of and"),
            ("offset = x", "texts need single quotes"),
            ("offset = 'x'", "offset cannot be compared"),
            ("priority = 9999999999", "priority has 32 bits"),
            ("sent_time < 'soon'", "not an ISO 8601 time"),
            ("colour = 'red'", "there is no column colour"),
            ("headers = 'x'", "headers cannot be compared"),
            ("offset = 3;", "cannot be read from ';'"),
            ("offset = " + "9" * 20_000, "longer than"),
        ):
            error = self.assertRaises(ArchiveError, self.erase, condition)
            self.assertIn(reason, str(error))
