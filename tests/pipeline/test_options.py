"""The options of the data source: numbers and times that nothing could hold are refused by name."""

from __future__ import annotations

import contextlib
from argparse import ArgumentError, ArgumentParser

import hypothesis
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.writing.options import write_options

NUMBERS = ("-1", "9" * 40, "9" * 400, "9" * 5000, "\u0663", "1e400", "nan", "", " 1")
_NO_OFFSETS = ("-3", "9" * 19, "9" * 400, "9" * 5000, "1.5")
OFFSETS = tuple(f'{{"orders": {{"0": {number}}}}}' for number in _NO_OFFSETS)


class HostileOptionTests(SynchronousTestCase):
    """Each names itself and its value, and nothing but a L{ReadingError} is raised."""

    def refused(self, option: str, text: str, reason: str) -> None:
        """An option is refused, in a line that is no longer than people read."""
        parse = write_options if option in ("maxMessagesPerSecond", "serverTimeout") else read_options
        given = {"path": "x", option: text} if parse is read_options else {"control": "x", option: text}
        reported = str(self.assertRaises(ReadingError, parse, given))
        self.assertTrue(reported.startswith(f"the option {option} is {text[:20]!r}"[:-1]), reported)
        self.assertIn(reason, reported)
        self.assertLess(len(reported), 400)

    def test_numbers(self) -> None:
        """Numbers are from 1 on, and not beyond what Spark has."""
        for option in (
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "minPartitions",
            "maxMessagesPerSecond",
        ):
            for text in (*NUMBERS, "0", str(1 << 31)):
                self.refused(option, text, "must be a whole number from 1 to 2147483647")
        self.assertEqual(read_options({"path": "x", "minPartitions": "2147483647"}).partitions, 2147483647)

    def test_times(self) -> None:
        """Milliseconds end with the year 9999, as dates do."""
        for text in NUMBERS:
            self.refused("startingTimestamp", text, "must be milliseconds since 1970-01-01 UTC")
        self.refused("startingTimestamp", "253402300800000", "before the year 10000")
        last = read_options({"path": "x", "startingTimestamp": "253402300799999"}).since
        self.assertEqual(last, 253402300799.999)
        for text in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
            self.assertIsInstance(read_options({"path": "x", "startingTimestamp": text}).since, float)

    def test_server_timeout(self) -> None:
        """The time limit of a sink is a duration that a timer can have."""
        for text in ("0s", "25h", "10", "-1s", "999999999h", ""):
            self.refused("serverTimeout", text, "must be ")
        for text, seconds in (("10ms", 0.01), ("24h", 86400.0)):
            found = write_options({"control": "x", "serverTimeout": text})
            self.assertEqual(seconds, found.timeout)

    def test_fields(self) -> None:
        """What is wrong in decodeSchema is named with its field, and each type that is documented is read."""
        good = (
            *("id BIGINT, lines ARRAY<STRUCT<sku: STRING>>", "`a b`: decimal(10, 2) NOT NULL COMMENT 'x, <'"),
            *("m MAP<STRING, ARRAY<INT>>, t TIMESTAMP, T DATE", "s STRUCT<>, c STRUCT<d DOUBLE, e: FLOAT>"),
        )
        for text in good:
            found = read_options({"path": "x", "decode": "auto", "decodeSchema": text})
            self.assertEqual(found.decode_schema, text)
        for text, reason in (
            ("id BIGNT", "has the field 'id' as 'BIGNT', which is not one of BIGINT"),
            ("id", "has the field 'id' without a type"),
            ("id BIGINT,", "lacks the name of a field at the end"),
            ("STRUCT<id: BIGINT>", "give its fields alone, without STRUCT< and >"),
            ("id BIGINT> , x <", "lacks a comma after the field id before '>'"),
            ("id INT, id STRING", "has the field 'id' twice"),
            ("id MAP<INT, STRING>", "as a MAP with keys INT, not STRING"),
            ("a STRUCT<b: ARRAY<NUMBER>>", "has the field 'a.b[]' as 'NUMBER'"),
            ("a ARRAY<INT", "lacks > in the type of the field 'a[]' at the end"),
            ("a DECIMAL(50, 1)", "DECIMAL has up to 38 digits"),
            ("a " + "ARRAY<" * 5000 + "INT" + ">" * 5000, "is nested deeper than 100 types"),
            ("a INT; DROP", "cannot be read from '; DROP'"),
            ("a INT, " * 20_000, "is longer than 100000 characters"),
        ):
            self.refused_fields(text, reason)

    def refused_fields(self, text: str, reason: str) -> None:
        given = {"path": "x", "decode": "auto", "decodeSchema": text}
        said = str(self.assertRaises(ReadingError, read_options, given))
        self.assertIn(reason, said)
        self.assertTrue(said.startswith("the option decodeSchema is "), said)
        self.assertLess(len(said), 1000)

    @hypothesis.given(st.lists(st.sampled_from("a INT ARRAY STRUCT MAP STRING < > , : ( ) 8".split())))
    def test_any_fields(self, tokens: list[str]) -> None:
        """Any text is a schema, or refused as an option."""
        with contextlib.suppress(ReadingError):
            read_options({"path": "x", "decode": "auto", "decodeSchema": " ".join(["a", *tokens])})

    def test_sizes_and_durations(self) -> None:
        """Sizes are in bytes or with a unit of Spark's, durations in the form of Kafka's source."""
        for text in (*(each for each in NUMBERS if each != " 1"), "0", "1.5m", "64t", "m"):
            self.refused("maxBytesPerTrigger", text, "must be bytes, at least 1, or a number with a unit")
        for text in (*NUMBERS, "15", "15 days", "m"):
            self.refused("maxTriggerDelay", text, "must be a duration such as 500ms, 30s, 15m or 1h")
        for text, size in (("4096", 4096), ("512k", 512 << 10), ("64M", 64 << 20), ("1gb", 1 << 30)):
            self.assertEqual(read_options({"path": "x", "maxBytesPerTrigger": text}).bytes_per_trigger, size)
        for text, seconds in (("250ms", 0.25), ("30s", 30.0), ("15m", 900.0), ("1h", 3600.0)):
            self.assertEqual(read_options({"path": "x", "maxTriggerDelay": text}).delay, seconds)

    def test_contradictions(self) -> None:
        """Options that contradict each other are named with their values."""
        for given, reason in (
            ({"endingOffsets": "latest", "endingTimestamp": "1"}, "exclude each other"),
            (
                {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"},
                "minOffsetsPerTrigger is 11, more than maxOffsetsPerTrigger, 10: make it smaller",
            ),
        ):
            error = self.assertRaises(ReadingError, read_options, {"path": "x", **given})
            self.assertIn(reason, str(error))

    def test_offsets(self) -> None:
        """Offsets are what a store can have."""
        for option in ("startingOffsets", "endingOffsets"):
            for text in (*NUMBERS, *OFFSETS, "[" * 100_000, '{"orders": 1}', "null"):
                self.refused(option, text, "must be earliest, latest or JSON")
        largest = read_options({"path": "x", "startingOffsets": f'{{"a": {{"0": {(1 << 63) - 1}}}}}'})
        self.assertEqual(largest.starting, {"a": (1 << 63) - 1})


class HostileArgumentTests(SynchronousTestCase):
    """The options of the jobs are refused by argparse, which names them."""

    def test_jobs(self) -> None:
        """Rates, steps, quotas and times."""
        try:
            from msmq.pipeline.spark.running import quota, replay
        except ImportError as error:
            self.skipTest(f"there is no Spark: {error}")
        for job, option, prefix in (
            (replay.JOB, "--rate", ""),
            (quota.JOB, "--step", ""),
            (quota.JOB, "--quota", "private$\\orders="),
            (replay.JOB, "--since", ""),
        ):
            for text in NUMBERS:
                parser = ArgumentParser(exit_on_error=False)
                job.add_options(parser)
                refused = self.assertRaises(ArgumentError, parser.parse_args, [f"{option}={prefix}{text}"])
                self.assertIn(option, str(refused))
                self.assertNotIn("Exceeds", str(refused))
