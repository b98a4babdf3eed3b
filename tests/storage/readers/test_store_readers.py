"""Where stores are looked for, and packets of which a reader has only the beginning."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.pipeline.rows import message_row
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import open_reader
from msmq.storage.readers.pages_in_arrow import encoded_page, event_rows, events_of_stream
from msmq.storage.readers.shape import without_body
from tests.samples import examples
from tests.storage.readers.reader_contract import HEADERS
from tests.strategies import user_packets


class OpeningTests(SynchronousTestCase):
    """Stores that are not where they are looked for."""

    def test_directory_without_a_store(self) -> None:
        """The data directory of a server whose store is elsewhere: the error says how to name that one."""
        directory = Path(self.mktemp())
        directory.mkdir()
        error = self.assertRaises(StorageError, open_reader, str(directory))
        self.assertIn(f"{directory}: there is no store in this directory", str(error))
        self.assertIn("postgresql://...", str(error))


class ArrowPageTests(SynchronousTestCase):
    """Pages for readers on other machines."""

    def test_texts_of_peers(self) -> None:
        """An event whose text has an unpaired surrogate does not end the reading of the event log."""
        events = [
            StoredEvent(7, AppendEvent(1.0, bytes(20), "refused", "half \ud83d", 3, "q\udc80")),
            StoredEvent(8, AppendEvent(1.0, bytes(20), "expired", "Größe \U0001f600\0", 3, "")),
        ]
        found, following = events_of_stream(encoded_page("events", event_rows(events), 9), "here")
        self.assertEqual(
            [(one.sequence, one.event.reason, one.event.queue) for one in found],
            [(7, "half \ufffd", "q\ufffd"), (8, "Größe \U0001f600\0", "")],
        )
        self.assertEqual(following, 9)


class WithoutBodyTests(SynchronousTestCase):
    """A packet of which only the beginning was read."""

    @given(user_packets(), st.integers(0, 400))
    @settings(max_examples=examples(50))
    def test_headers_are_the_same(self, packet: bytes, head: int) -> None:
        """If there is an answer, its headers are those of the whole packet."""
        found = without_body(packet[:head], max(head, len(packet)))
        if found is not None and head <= len(packet):
            self.assertEqual(
                message_row(StoredPacket(found, "q", 1), HEADERS),
                message_row(StoredPacket(packet, "q", 1), HEADERS),
            )
