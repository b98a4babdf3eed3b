"""Messages as records: written from what messages have in common, they say what they say one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.control.protocol.records import RecordDecoder
from msmq.control.server.messages.message_records import MessageWriter, record_header
from msmq.queues.arriving.message import Delivery
from msmq.structures.names.format_name import parse_format_name
from tests.control.support import ORDERS, ControlTestCase
from tests.samples import examples

PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "label": st.sampled_from(["", "L", 'höher, "weiter\\']),
        "priority": st.integers(0, 7),
        "delivery": st.sampled_from(Delivery),
        "journal": st.booleans(),
        "time_to_be_received": st.sampled_from([900, 1000]),
        "dead_letter": st.booleans(),
        "application_tag": st.integers(0, 3),
        "body_type": st.integers(0, 3),
        "correlation_id": st.sampled_from([bytes(20), bytes(range(20))]),
        "extension": st.sampled_from([b"", b"ext", bytes(300)]),
        "response_queue": st.sampled_from([None, parse_format_name("DIRECT=OS:A\\q")]),
    },
)


class WriterTests(ControlTestCase):
    """One writer, many messages."""

    def assert_written(self, queue: str) -> None:
        writer = MessageWriter()
        for message in [*self.seen(queue), *self.seen(queue)]:
            [record] = RecordDecoder().feed(writer.record(message))
            # The order of the keys is what people see.
            self.assertEqual(list(record.header.items()), list(record_header(message).items()))
            self.assertEqual(record.body, bytes(message.view.body) + message.view.extension)

    @given(st.lists(st.tuples(PROPERTIES, st.sampled_from([b"", b"1", b"22", bytes(70)])), min_size=1))
    @settings(max_examples=examples(15), deadline=None)
    def test_any_messages(self, messages: list[tuple[dict[str, Any], bytes]]) -> None:
        """After any earlier messages, a message is written as if it were the only one."""
        self.run_to_end(self.service.purge_queue(ORDERS))
        for properties, body in messages:
            self.put(body, **properties)
            self.clock.advance(0.7)
        self.assert_written(ORDERS)

    def test_transactions(self) -> None:
        """Each message has its own position in its sequence."""
        queue = self.make_queue(transactional=True)
        for _ in range(3):
            self.put(b"1", b"2", transactional=True, queue=queue)
        self.assert_written(queue)

    def test_many_kinds(self) -> None:
        """More kinds of messages than are remembered are written all the same."""
        for number in range(200):
            self.put(b"", application_tag=number)
        self.assert_written(ORDERS)
