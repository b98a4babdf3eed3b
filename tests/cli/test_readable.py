"""Values as people read them."""

from __future__ import annotations

import os
import sys
import time

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.output import Output
from msmq.cli.readable import cell, time_text

SENT = "2026-11-21T10:22:32.502530+00:00"


class TimeTests(SynchronousTestCase):
    """Times, in a zone an hour ahead."""

    def setUp(self) -> None:
        self.addCleanup(time.tzset)
        self.patch(os, "environ", {**os.environ, "TZ": "XXX-01:00"})
        os.putenv("TZ", "XXX-01:00")
        self.addCleanup(os.unsetenv, "TZ")
        time.tzset()

    def test_local_time(self) -> None:
        """A time is local, with its offset and to the millisecond; with C{--utc} it is in UTC."""
        self.assertEqual(cell(SENT, "sent_time", utc=False), "2026-11-21T11:22:32.502+01:00")
        self.assertEqual(cell(SENT, "sent_time", utc=True), "2026-11-21T10:22:32.502+00:00")
        self.assertEqual(time_text("2026-11-21T10:22:32+00:00", utc=False), "2026-11-21T11:22:32+01:00")

    def test_times_that_are_no_local_times(self) -> None:
        """The end of time, as certificates without an end have it, is printed as it is."""
        for text in ("9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+05:00"):
            with self.subTest(text):
                self.assertEqual(time_text(text, utc=False), text)
        self.assertEqual(time_text("0001-01-01T00:00:00+05:00", utc=True), "0001-01-01T00:00:00+05:00")

    def test_only_times_are_changed(self) -> None:
        """A label that looks like a time stays, and so does a time that cannot be read."""
        self.assertEqual(cell(SENT, "label", utc=False), SENT)
        self.assertEqual(cell("soon\x1b", "sent_time", utc=False), "soon\\x1b")
        self.assertEqual(cell("2026-11-21T10:22:32", "sent_time", utc=False), "2026-11-21T10:22:32")


class SizeTests(SynchronousTestCase):
    """Numbers of bytes."""

    def test_sizes(self) -> None:
        """Long ones are short, in values of values too; other numbers are as they are."""
        self.assertEqual(cell(1_500_000, "bytes"), "1.4M")
        self.assertEqual(cell(1_500_000, "body_size"), "1.4M")
        self.assertEqual(cell(1_500_000, "messages"), "1500000")
        self.assertEqual(cell(1_500_000, "log_size"), "1500000")
        self.assertEqual(cell({"journal_bytes": 70_000, "quota": 70_000}), "journal_bytes=68.4K quota=70000")

    def test_fractions(self) -> None:
        """Thousandths, or four digits of less than 1."""
        found = cell({"median": 0.46819400787353516, "p99": 12.3456789, "least": 1.23456e-05, "none": 0.0})
        self.assertEqual(found, "median=0.4682 p99=12.346 least=1.235e-05 none=0.0")
        self.assertEqual(cell(1234567.25), "1234567.25")


class TitleTests(SynchronousTestCase):
    """The title of a table on a terminal."""

    def printed(self, **environment: str) -> bytes:
        """A table on a terminal, with these variables."""
        reader, writer = os.openpty()
        self.addCleanup(os.close, reader)
        others = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        self.patch(os, "environ", {**others, **environment})
        with os.fdopen(writer, "w") as terminal:
            self.patch(sys, "stdout", terminal)
            output = Output(as_json=False)
            output.many([{"path": "x"}], ("path",))
            output.flush()
            return os.read(reader, 1000)

    def test_narrow_terminal(self) -> None:
        """The path is printed whole, and the title says that columns are left out."""
        path = ".\\private$\\orders"
        reader, writer = os.openpty()
        self.addCleanup(os.close, reader)
        self.patch(os, "environ", {**os.environ, "COLUMNS": "30", "TERM": "dumb"})
        with os.fdopen(writer, "w") as terminal:
            self.patch(sys, "stdout", terminal)
            output = Output(as_json=False)
            output.many(
                [{"path": path, "type": "private", "transactional": True}], ("path", "type", "transactional")
            )
            output.flush()
            shown = os.read(reader, 1000)
        self.assertEqual(shown, f"path{' ' * 13}  ...\r\n{path}\r\n".encode())

    def test_bold(self) -> None:
        """It is bold, unless C{NO_COLOR} is set or the terminal knows no styles."""
        self.assertEqual(self.printed(TERM="xterm"), b"\x1b[1mpath\x1b[0m\r\nx\r\n")
        self.assertEqual(self.printed(TERM="xterm", NO_COLOR="1"), b"path\r\nx\r\n")
        self.assertEqual(self.printed(TERM="dumb"), b"path\r\nx\r\n")
