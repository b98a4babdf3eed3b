"""Values as the console shows them."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from twisted.trial.unittest import SynchronousTestCase

from msmq.quantities import count, duration, kilobytes, seconds, size
from msmq.web.console.presentation import field_text, hex_rows, shown_time, visible


class PresentationTests(SynchronousTestCase):
    """Numbers have units, times two zones, and text no hidden characters."""

    def test_numbers(self) -> None:
        """Thousands are separated from five digits on; sizes and durations have units."""
        self.assertEqual([count(9999), count(12345), count(0)], ["9999", "12\u202f345", "0"])
        self.assertEqual([size(0), size(1023), size(1536)], ["0 B", "1023 B", "1.5 KiB"])
        self.assertEqual([size(1 << 20), size(3 << 40), size(5 << 50)], ["1.0 MiB", "3.0 TiB", "5120.0 TiB"])
        self.assertEqual([kilobytes(None), kilobytes(1)], ["no limit", "1.0 KiB"])
        self.assertEqual(
            [seconds(each) for each in (None, 0.0004, 0.0374, 2.5)], [None, "0.4 ms", "37 ms", "2.5 s"]
        )
        durations = [duration(each) for each in (0, 59.9, 60, 185, 86_400, 187_000, -5)]
        self.assertEqual(durations, ["0 s", "59 s", "1 min", "3 min 5 s", "1 d", "2 d 3 h", "0 s"])

    def test_times(self) -> None:
        """A time is shown in the zone of the server, with UTC as its title."""
        found = shown_time("2026-11-23T13:00:00+00:00", timezone(timedelta(hours=2)))
        self.assertEqual((found.local, found.utc), ("2026-11-23 15:00:00", "2026-11-23 13:00:00 UTC"))
        self.assertEqual(shown_time("2026-11-23T13:00:00Z", UTC).local, "2026-11-23 13:00:00")

    def test_hidden_characters(self) -> None:
        """Characters that are not seen, or change the direction of text, are escaped."""
        self.assertEqual(visible("a\u202egpj.exe\x00\u200b"), "a\\u202egpj.exe\\x00\\u200b")
        self.assertEqual(visible("two\nlines\tand\u00a0é 日本"), "two\nlines\tand\u00a0é 日本")
        self.assertEqual(visible("\ud800"), "\\ud800")
        self.assertEqual(field_text("two\nlines\u202e"), "twolines\\u202e")

    def test_hex(self) -> None:
        """Each row has an offset, sixteen bytes, and their ASCII characters."""
        first, second = hex_rows(b"<order>\x00 number 7")
        self.assertEqual((first.offset, first.characters), ("00000000", "<order>. number "))
        self.assertEqual((second.offset, second.digits, second.characters), ("00000010", "37", "7"))
