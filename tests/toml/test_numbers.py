"""Numbers that nothing could hold are refused where they stand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.toml.document import DocumentError, parse_document
from msmq.toml.value_kinds import Seconds, WholeNumber


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
