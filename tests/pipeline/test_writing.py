"""C{df.write.format("msmq")}: rows become messages of a server that runs, each of them once."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import Delivered
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.writing.records import RecordBuilder, check_columns
from msmq.pipeline.writing.repeated_rows import RepeatedRows
from tests.faults.refused_commit import refusing
from tests.faults.server import ServerProcess
from tests.pipeline.spark_support import SparkTestCase

ORDERS = r".\private$\orders"
ADMIN = r"DIRECT=OS:localhost\private$\acknowledgements"


class WritingCase(SparkTestCase):
    """A server with one queue."""

    def setUp(self) -> None:
        super().setUp()
        # A path of trial's own may be longer than a unix socket's may be.
        self.home = Path(tempfile.mkdtemp(prefix="msmq-writing-")).resolve()
        self.addCleanup(shutil.rmtree, self.home)
        # Spark takes its time to start on a machine that has much to do.
        self.start()
        self.server.client.create_queue(ORDERS, {"log": True})

    def start(self) -> None:
        """Start the server, over what an earlier one stored."""
        self.server = ServerProcess(self.home, limit=600)
        self.addCleanup(self.server.kill)
        self.assertTrue(self.server.is_ready(), self.server.output)

    def write(self, frame: DataFrame, **options: Any) -> None:
        given = {"control": str(self.server.data), **options}
        frame.write.format("msmq").mode(given.pop("mode", "append")).options(**given).save()

    def refused(self, frame: DataFrame, **options: Any) -> str:
        with self.assertRaises((AnalysisException, PySparkException)) as caught:
            self.write(frame, **options)
        return reason(caught.exception)

    def received(self) -> list[Delivered]:
        """The messages in the queue."""
        count = self.server.client.queue(ORDERS)["messages"]
        if not count:
            return []
        with self.server.client.receive(ORDERS, count=count, peek=True) as stream:
            return [one for one in stream if isinstance(one, Delivered)]

    def bodies(self) -> list[bytes]:
        return sorted(one.body for one in self.received())

    def orders(self, count: int) -> DataFrame:
        return self.spark.range(count).selectExpr("concat('order ', id) as body", "concat('k', id) as key")


def records(destination: str = ORDERS, *, key: str = "", transactional: bool | None = None) -> RecordBuilder:
    """A builder of records for queues of this kind."""
    return RecordBuilder(destination, key, lambda name: transactional, "task")


class BatchTests(WritingCase):
    """Messages sent from rows."""

    def test_messages(self) -> None:
        """A row is a message with the properties that its columns name."""
        frame = self.spark.createDataFrame(
            [(b"\x00\x01", "first", 7, "recoverable", 5, ["full-reach"], "eHk=", 60, ADMIN)],
            "value binary, label string, priority int, delivery string, application_tag bigint,"
            " acknowledge array<string>, extension_base64 string, time_to_be_received bigint,"
            " admin_queue string",
        )
        self.write(frame, destination=ORDERS)
        [one] = self.received()
        self.assertEqual((one.body, one.extension), (b"\x00\x01", b"xy"))
        reported = {
            name: one.properties[name] for name in ("label", "priority", "delivery", "application_tag")
        }
        self.assertEqual(
            reported, {"label": "first", "priority": 7, "delivery": "recoverable", "application_tag": 5}
        )

    def test_delivery(self) -> None:
        """A message is recoverable unless its row says express, so that no restart loses what has a key."""
        rows = [("a", None), ("b", "express"), ("c", "recoverable")]
        self.write(self.spark.createDataFrame(rows, "body string, delivery string"), destination=ORDERS)
        found = {one.body: one.properties["delivery"] for one in self.received()}
        self.assertEqual(found, {b"a": "recoverable", b"b": "express", b"c": "recoverable"})

    def test_killed_server(self) -> None:
        """Rows that are written again after the server was killed are each in the queue once."""
        express = self.orders(5).selectExpr("concat('express ', body) as body", "key || 'e' as key")
        for frame in (self.orders(20), express.selectExpr("*", "'express' as delivery")):
            self.write(frame, destination=ORDERS)
            self.server.kill()
            self.start()
            self.write(frame, destination=ORDERS)
        expected = [f"order {number}" for number in range(20)]
        expected += [f"express order {number}" for number in range(5)]
        self.assertEqual(self.bodies(), sorted(one.encode() for one in expected))

    def test_transactional_queue(self) -> None:
        """Rows without the column are sent to a transactional queue in transactions."""
        queue = r".\private$\payments"
        self.server.client.create_queue(queue, {"transactional": True})
        self.write(self.orders(3), destination=queue)
        self.assertEqual(self.server.client.queue(queue)["messages"], 3)

    def test_order_after_a_late_refusal(self) -> None:
        """Rows after one whose commit fails are not sent before it, as a replay needs."""
        expected = [f"order {number}".encode() for number in range(600)]
        frame = self.orders(600).coalesce(1)
        with refusing(self.server.data / "msmq.sqlite", b"order 300"):
            self.assertIn("cannot write: refused", self.refused(frame, destination=ORDERS))
        self.write(frame, destination=ORDERS)
        self.assertEqual([one.body for one in self.received()], expected)

    def test_idempotent_by_key(self) -> None:
        """Messages sent again under their keys exist once; another C{key} sends new ones."""
        frame = self.orders(20)
        self.write(frame, destination=ORDERS)
        self.write(frame, destination=ORDERS)
        self.assertEqual(len(self.bodies()), 20)
        self.write(frame, destination=ORDERS, key="again")
        self.assertEqual(len(self.bodies()), 40)

    def test_replay(self) -> None:
        """Rows of the message log are sent again as they are read, into another queue."""
        self.write(self.orders(5), destination=ORDERS)
        self.server.client.create_queue(r".\private$\copies", {})
        options = {"path": str(self.server.data), "stream": "log", "subscribe": "orders"}
        frame = self.spark.read.format("msmq").options(**options).load()
        for _ in range(2):
            self.write(frame, destination=r".\private$\copies")
        self.assertEqual(self.server.client.queue(r".\private$\copies")["messages"], 5)

    def test_destinations_of_rows(self) -> None:
        """Each row may say where to."""
        self.server.client.create_queue(r".\private$\others", {})
        rows = [("a", ORDERS), ("b", r".\private$\others"), ("c", ORDERS)]
        self.write(self.spark.createDataFrame(rows, "body string, destination string"))
        self.assertEqual(self.bodies(), [b"a", b"c"])
        self.assertEqual(self.server.client.queue(r".\private$\others")["messages"], 1)

    def test_dry_run(self) -> None:
        """No message is sent, and rows that cannot be sent are refused all the same."""
        self.write(self.orders(5), destination=ORDERS, dryRun="true")
        self.assertEqual(self.bodies(), [])
        wrong = self.orders(5).selectExpr("*", "9 as priority")
        said = self.refused(wrong, destination=ORDERS, dryRun="true")
        self.assertIn("cannot be sent: ", said)
        self.assertIn("priority", said.lower())

    def test_rate_limit(self) -> None:
        """A task does not send faster than it may."""
        begun = time.monotonic()
        self.write(self.orders(11).coalesce(1), destination=ORDERS, maxMessagesPerSecond="20")
        self.assertGreater(time.monotonic() - begun, 0.5)
        self.assertEqual(len(self.bodies()), 11)

    def test_refusals(self) -> None:
        """A row that cannot be sent is reported in one line, which names it."""
        frame = self.orders(1)
        for options, expected in (
            ({"control": ""}, "the option control (the control socket of a queue manager) is missing"),
            (
                {"control": "/nowhere/a.sock", "destination": ORDERS},
                "no queue manager answers at /nowhere/a.sock",
            ),
            (
                {"control": "tcp:127.0.0.1:x", "destination": ORDERS},
                "the option control: 'tcp:127.0.0.1:x' names the port 'x'",
            ),
            ({"destinations": ORDERS}, "there is no option 'destinations' for writing"),
            ({"maxMessagesPerSecond": "0"}, "must be a whole number from 1 to 2147483647"),
            ({}, "no destination"),
            ({"destination": ORDERS, "mode": "overwrite"}, "a queue cannot be overwritten"),
            ({"destination": r".\private$\nobody"}, "MQ_ERROR_QUEUE_NOT_FOUND"),
        ):
            with self.subTest(**options):
                said = self.refused(frame, **options)
                self.assertIn(expected, said)
                self.assertNotIn("\n", said)
        misspelt = frame.withColumnRenamed("key", "lable")
        self.assertIn("a message has no column 'lable'", self.refused(misspelt, destination=ORDERS))


class StreamTests(WritingCase):
    """A stream that ends in a queue."""

    def test_batch_that_is_done_again(self) -> None:
        """A batch that is sent twice, since its end was not recorded, leaves each message once."""
        source = self.home / "source"
        checkpoint = self.home / "checkpoint"
        self.orders(10).drop("key").coalesce(1).write.json(str(source))

        def run() -> None:
            stream = self.spark.readStream.schema("body string").json(str(source))
            writer = stream.writeStream.format("msmq").trigger(availableNow=True)
            writer = writer.options(control=str(self.server.data), destination=ORDERS)
            writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()

        run()
        self.assertEqual(len(self.bodies()), 10)
        for name in (checkpoint / "commits").iterdir():
            name.unlink()
        run()
        self.assertEqual(len(self.bodies()), 10)

    def test_writes_of_one_batch(self) -> None:
        """Each of several writes of a batch sends its rows, also when the batch is repeated."""
        source, checkpoint = self.home / "source", self.home / "checkpoint"
        self.orders(10).drop("key").coalesce(1).write.json(str(source))

        def send(frame: DataFrame, number: int) -> None:
            for part in ("body < 'order 5'", "body >= 'order 5'"):
                self.write(frame.where(part), destination=ORDERS)

        for _ in range(2):
            stream = self.spark.readStream.schema("body string").json(str(source))
            writer = stream.writeStream.foreachBatch(send).trigger(availableNow=True)
            writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
            self.assertEqual(self.bodies(), [f"order {number}".encode() for number in range(10)])
            for name in (checkpoint / "commits").iterdir():
                name.unlink()


class RecordTests(SynchronousTestCase):
    """Rows that are looked at one by one."""

    def test_damaged_and_acknowledgements(self) -> None:
        """Neither can be sent."""
        recording = records()
        row: dict[str, Any] = {"value": b"", "decode_error": "cut short", "id": None}
        self.assertIn(
            "place 7 is a damaged", str(self.assertRaises(ReadingError, recording.record, row, "place 7"))
        )
        row = {"value": b"", "class": 2, "class_name": "MQMSG_CLASS_ACK_REACH_QUEUE", "id": "{1}\\2"}
        error = self.assertRaises(ReadingError, recording.record, row, "p")
        self.assertIn("is MQMSG_CLASS_ACK_REACH_QUEUE, which only queue managers send", str(error))

    def test_invalid_queues(self) -> None:
        """In a row that was read they are left out, since its sender chose the text; else refused."""
        row = {"value": b"", "response_queue": "DIRECT=x", "admin_queue": "OS:"}
        header = records().record({**row, "id": "{1}\\2"}, "p").header
        self.assertEqual(set(header), {"destination", "key"})
        self.assertIn("_queue: ", str(self.assertRaises(ReadingError, records().record, row, "p")))
        named = {**row, "response_queue": "DIRECT=OS:b\\q", "admin_queue": None, "id": "{1}\\2"}
        self.assertEqual(records().record(named, "p").header["response_queue"], "DIRECT=OS:b\\q")

    def test_invalid_base64(self) -> None:
        """Such a row is refused by name, and nothing else is sent instead."""
        for column in ("body_base64", "extension_base64"):
            for wrong in ("####", "YQ", "Y Q = =", "\xe9"):
                error = self.assertRaises(ReadingError, records().record, {column: wrong}, "p")
                self.assertIn(
                    f"row p cannot be sent: MQ_ERROR_INVALID_PARAMETER: {column} is not base64", str(error)
                )

    def test_resending_dead_letters(self) -> None:
        """A dead letter is sent again, though its class has the reason of its failure."""
        row = {
            "value": b"late",
            "class": 0xC004,
            "topic": r".\system$;deadletter",
            "destination_queue": ORDERS,
        }
        record = records("").record(row, "p")
        self.assertEqual((record.header["destination"], record.body), (ORDERS, b"late"))

    def test_transactional(self) -> None:
        """The queue decides where it is known, else the row."""
        for row, known, expected in (
            ({}, True, True),
            ({"transactional": False}, True, True),
            ({"transactional": True}, False, None),
            ({"transactional": True}, None, True),
            ({"transactional": False}, None, None),
            ({}, None, None),
        ):
            header = records(transactional=known).record({"value": b"", **row}, "p").header
            self.assertEqual(header.get("transactional"), expected, (row, known))

    def test_keys(self) -> None:
        """The key is the row's own, or has its identifier, or its task; that of the option precedes it."""
        for row, key in (
            ({"key": "k", "id": "i"}, "run:k"),
            ({"id": "i"}, "run:i:"),
            ({}, "run:task:"),
        ):
            header = records(key="run").record({"value": b"", **row}, "place").header
            self.assertTrue(header["key"].startswith(key), header["key"])

    def test_order(self) -> None:
        """A task that is repeated with its rows in another order sends each under the key that it had."""

        def keys(bodies: str) -> list[str]:
            task = records()
            return [task.record({"body": body}, "row").header["key"] for body in bodies]

        first, again = keys("abca"), keys("caab")
        self.assertEqual(len(set(first)), 4)
        self.assertEqual(sorted(first), sorted(again))
        self.assertEqual(first[2], again[0])

    def test_many_rows(self) -> None:
        """Of more rows than are compared each still has a key of its own, the same in the same order."""

        def suffixes(digests: str) -> list[str]:
            repeated = RepeatedRows(limit=2)
            return [repeated.suffix(digest) for digest in digests]

        self.assertEqual(suffixes("abacca"), ["", "", "1", "@3", "@4", "2"])

    def test_rows_of_one_message(self) -> None:
        """A row that is sent once more has its key; rows that were made of one message are sent each."""
        keys = [
            records(destination, key="run").record({"id": "i", **row}, "place").header["key"]
            for row, destination in (
                ({"value": b"one"}, ORDERS),
                ({"value": b"one"}, ORDERS),
                ({"value": b"two"}, ORDERS),
                ({"value": b"one", "label": "other"}, ORDERS),
                ({"value": b"one"}, ".\\private$\\other"),
            )
        ]
        self.assertEqual((len(set(keys)), keys[0]), (4, keys[1]))
        self.assertTrue(all(key.startswith("run:i:") for key in keys))

    def test_numbers(self) -> None:
        """A number is a key, as its digits; in the column of bytes it is refused, not sent as zeros."""
        for row, key in (({"key": 0}, "run:0"), ({"key": 12, "id": "i"}, "run:12")):
            header = records(key="run").record({"value": b"", **row}, "place").header
            self.assertEqual(header["key"], key)
        error = self.assertRaises(ReadingError, records().record, {"value": 3}, "place")
        self.assertEqual(
            str(error), "the column value is an int, it has to be BINARY or STRING; body takes any text"
        )

    def test_one_body(self) -> None:
        """Columns that repeat a body are sent as one; a row with different bodies is refused by name."""
        same: list[dict[str, Any]] = [
            {"value": b"one", "body": "one", "body_base64": "b25l"},
            {"value": bytearray(b"one"), "body": None},
            {"value": None, "body": "one"},
            {"value": "one", "body_base64": "b25l"},
        ]
        for row in same:
            self.assertEqual(records().record(row, "p").body, b"one")
        different: list[tuple[dict[str, Any], str, str]] = [
            ({"value": b"one", "body": "two"}, "value", "body"),
            ({"value": b"", "body": "two"}, "value", "body"),
            ({"value": b"one", "body": None, "body_base64": "dHdv"}, "value", "body_base64"),
            ({"body": "one", "body_base64": "dHdv"}, "body", "body_base64"),
        ]
        for row, first, other in different:
            error = self.assertRaises(ReadingError, records().record, {"id": "{a}\\7", **row}, "p")
            self.assertEqual(
                str(error),
                f"row {{a}}\\7 has one body in the column {first} and another in {other}: drop the column"
                " that is not to be sent",
            )

    def test_columns(self) -> None:
        """Columns that cannot be a message are refused before anything is sent."""
        check_columns(["value", "topic"], "")
        # What is ignored may be there twice.
        check_columns(["value", "topic", "offset", "offset"], "")
        for names, expected in (
            (["label"], "no body to send"),
            (["value"], "no destination"),
            (["value", "topic", "label", "label"], "the column 'label' is there twice"),
        ):
            self.assertIn(expected, str(self.assertRaises(ReadingError, check_columns, names, "")))
