"""Numbers that nothing could hold are refused where they stand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.toml.document import DocumentError, parse_document
from msmq.toml.value_kinds import Seconds, Size, WholeNumber, WholeSeconds


class NumberTests(SynchronousTestCase):
    """However many digits they have."""

    def test_values(self) -> None:
        """A value out of bounds is reported, shortened to a readable length."""
        for kind in (WholeNumber(1, 5), Seconds(1, 5)):
            for value, shown in (
                (6, "not 6"),
                (10**29, "not 1" + "0" * 29),
                (10**400, "not a number of more than 30 digits"),
                (-(10**400), "not a number of more than 30 digits"),
                (1 << 20_000, "not a number of more than 30 digits"),
            ):
                error = self.assertRaises(ValueError, kind.read, value)
                self.assertTrue(str(error).endswith(shown), error)
        for time in (float("nan"), float("inf"), 1e300, 0.5):
            self.assertIn(f"not {time:g}", str(self.assertRaises(ValueError, Seconds(1, 5).read, time)))
        for kind in (WholeNumber(60, 31_449_600), Seconds(60, 31_449_600)):
            self.assertEqual(kind.range_text, "60 to 31449600")
        self.assertEqual((Seconds(1, 5).read(5), Seconds(1, 5).read(1.5)), (5.0, 1.5))

    def test_documents(self) -> None:
        """A number that Python does not read is reported with its line."""
        error = self.assertRaises(DocumentError, parse_document, "[limits]\n\nevents = " + "9" * 5000 + "\n")
        self.assertEqual((error.line, error.problem), (3, "has a number of more digits than are read"))
        values = parse_document("[limits]\nevents = 0x" + "f" * 5000).values
        error = self.assertRaises(ValueError, WholeNumber(1, 5).read, values["limits"]["events"])
        self.assertIn("more than 30 digits", str(error))


class QuantityTests(SynchronousTestCase):
    """Sizes and durations with their units."""

    def test_sizes(self) -> None:
        """Powers of 1,024 have an i; what is not a whole number of the unit of the key is rounded up."""
        for text, size in (
            ("64 KiB", 65536),
            ("1.5GiB", 3 << 29),
            (" 10 MB ", 10_000_000),
            ("1 kB", 1000),
            ("0 B", 0),
            ("0.1 B", 1),
            ("1023.999999999 TiB", 1_125_899_906_841_525),
        ):
            self.assertEqual(Size(0, 1 << 50).read(text), size, text)
            self.assertEqual(Size(0, 1 << 40, 1024).read(text), -(-size // 1024), text)
        self.assertEqual(Size(0, 5).read(5), 5)
        error = self.assertRaises(ValueError, Size(0, 5, 1024).read, "6 KiB")
        self.assertEqual(str(error), "must be from 0 to 5 KiB, not '6 KiB'")

    def test_durations(self) -> None:
        """A decimal fraction is exact, and the units that are printed are read."""
        for text, seconds in (
            ("30 s", 30.0),
            ("700ms", 0.7),
            ("12h", 43200.0),
            ("7 d", 604800.0),
            ("1 w", 604800.0),
            ("2 d 4 h", 187200.0),
            ("1h30m", 5400.0),
            ("3 min 5 s", 185.0),
        ):
            self.assertEqual(Seconds(0, 1e6).read(text), seconds, text)
        self.assertEqual((WholeSeconds(1, 60).read("1 min"), WholeSeconds(1, 60).read(5)), (60, 5))
        error = self.assertRaises(ValueError, Seconds(1, 60).read, "1 h")
        self.assertEqual(str(error), "must be from 1 to 60 seconds, not '1 h'")
        for value in ("1500 ms", 1.5):
            error = self.assertRaises(ValueError, WholeSeconds(1, 60).read, value)
            self.assertIn("must be a whole number of seconds, not", str(error))

    def test_what_is_none(self) -> None:
        """Other units, other orders, other digits and bare numbers as text are refused, and what is accepted
        is named.
        """
        for text in (
            "",
            "5",
            "64 KB",
            "64 kib",
            "1 GIB",
            "-1 B",
            "1e3 B",
            "1,5 MiB",
            "\u0661 B",
            "1  B",
            "1 B 1 B",
        ):
            error = self.assertRaises(ValueError, Size(0, 5, 1024).read, text)
            self.assertIn("a number of KiB, or text with a unit as", str(error))
        for text in (
            "",
            "5",
            "1 M",
            "1 hour",
            "4 h 2 d",
            "1 s 1 s",
            "1 m 1 min",
            "-1 s",
            "nan s",
            "1 d 1 h 1 min 1 s 1 ms",
        ):
            error = self.assertRaises(ValueError, Seconds(0, 5).read, text)
            self.assertIn("a number of seconds, or text with a unit as", str(error))
        wrong: tuple[object, ...] = (True, [], "9" * 10**6 + " s")
        for kind in (Size(0, 5), Seconds(0, 5), WholeSeconds(0, 5)):
            for value in wrong:
                self.assertLess(len(str(self.assertRaises(ValueError, kind.read, value))), 600)
