"""Runs: messages with the same properties share a record of the control API, and say the same as alone."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.protocol.records import PROTOCOL, WITH_RUNS, RecordDecoder, StreamRecord
from msmq.control.protocol.runs import LONGEST, MalformedRun, bodies_of, check_run, messages_of, run_header
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.messages.message_records import MessageWriter, record_header
from msmq.control.server.sending.slices import SendSlice, SliceBuilder, cost
from msmq.queues.arriving.message import Delivery
from msmq.queues.arriving.send_run import SendRun
from msmq.structures.status import MQError
from tests.control.support import ORDERS, Caller, ControlTestCase
from tests.control.test_message_records import PROPERTIES
from tests.samples import examples

BODIES = st.lists(st.binary(max_size=5), min_size=1, max_size=20)


class RunTests(SynchronousTestCase):
    """The bytes of a run."""

    @given(BODIES)
    def test_any_bodies(self, bodies: list[bytes]) -> None:
        """The bodies of a run are the ones that were put into it, of any sizes."""
        header = json.loads(run_header(b'{"label":"L"}', list(map(len, bodies))))
        run = check_run(header.pop("run"))
        assert run is not None
        self.assertEqual((header, bodies_of(run, b"".join(bodies))), ({"label": "L"}, bodies))

    def test_malformed(self) -> None:
        """A malformed run is refused with the reason."""
        values: list[object] = [
            0,
            -1,
            LONGEST + 1,
            True,
            1.5,
            "2",
            {},
            [],
            [1] * (LONGEST + 1),
            [1, -1],
            [1, True],
        ]
        for value in values:
            with self.assertRaises(MalformedRun):
                check_run(value)
        for run, body in ((2, b"123"), ([1, 1], b"1"), ([1], b"12")):
            with self.assertRaises(MalformedRun):
                bodies_of(run, body)

    @given(st.recursive(st.none() | st.integers(-3, 3) | st.text(max_size=2), lambda inner: st.lists(inner)))
    def test_any_received(self, value: object) -> None:
        """A client decodes a record or refuses it, for any bytes from the server."""
        header = {"run": value, "id": value, "body_size": value}
        for run in (
            value,
            {"messages": value, "id": "x", "columns": value},
            {"messages": 1, "columns": ["id"]},
        ):
            try:
                found = list(messages_of({**header, "run": run}, b"12"))
            except MalformedRun:
                continue
            self.assertLessEqual(len(found), 2)


class SliceTests(SynchronousTestCase):
    """Records that were sent one soon after the other, and are taken together."""

    def cut(self, *records: tuple[dict[str, Any], bytes]) -> list[SendSlice]:
        """The slices of these records, each with a header of its own."""
        found: list[SendSlice] = []
        builder = SliceBuilder(ControlLimits(), True, lambda: None)
        waiting = deque(StreamRecord({"destination": ORDERS, **header}, body) for header, body in records)
        while waiting:
            found.append(builder.cut(waiting))
        return found

    def test_one_run(self) -> None:
        """Runs and single messages that differ in their bodies alone are sent as one run, without an object
        for each message.
        """
        same = {"label": "L", "dead_letter": True}
        [found] = self.cut(
            ({**same, "run": 2}, b"1122"), (same, b"3"), ({**same, "run": [1, 0]}, b"4"), (same, b"5")
        )
        assert isinstance(found.messages, SendRun)
        self.assertEqual(found.messages.bodies, [b"11", b"22", b"3", b"4", b"", b"5"])
        self.assertEqual((found.messages.template.label, found.keys), ("L", None))

    def test_other_properties(self) -> None:
        """Messages with other properties, or with a key, keep theirs."""
        [found] = self.cut(
            ({"label": "L"}, b"1"), ({"label": "M", "run": 2}, b"23"), ({"label": "M", "key": "k"}, b"4")
        )
        self.assertEqual([message.label for message in found.messages], ["L", "M", "M", "M"])
        self.assertEqual(
            [message.delivery for message in found.messages],
            [*[Delivery.EXPRESS] * 3, Delivery.RECOVERABLE],
        )
        self.assertEqual(found.keys, [None, None, None, "k"])

    def test_equal_numbers(self) -> None:
        """A 1 is no C{true}, also behind a C{true}."""
        waiting: list[tuple[dict[str, Any], bytes]] = [
            ({"dead_letter": True}, b"1"),
            ({"dead_letter": 1, "run": 1}, b"2"),
        ]
        with self.assertRaises(MQError):
            self.cut(*waiting)


class WriterTests(ControlTestCase):
    """Messages that are received."""

    @given(
        st.lists(
            st.tuples(PROPERTIES, st.sampled_from([b"", b"1", b"22", bytes(70)]), st.integers(1, 4)),
            min_size=1,
        )
    )
    @settings(max_examples=examples(10), deadline=None)
    def test_any_messages(self, messages: list[tuple[dict[str, Any], bytes, int]]) -> None:
        """A reader of runs gets the messages that a reader of single records gets, key by key."""
        self.run_to_end(self.service.purge_queue(ORDERS))
        for properties, body, count in messages:
            self.put(*[body] * count, **properties)
            self.clock.advance(0.7)
        self.assert_the_same(ORDERS)

    def test_transactions(self) -> None:
        """Each message of a run keeps its own position in its sequence."""
        queue = self.make_queue(transactional=True)
        for _ in range(3):
            self.put(b"1", b"2", transactional=True, queue=queue)
        self.assertEqual(self.assert_the_same(queue), 1)

    def test_longest(self) -> None:
        """A run ends after its largest number of messages."""
        self.put(*[b"x"] * (LONGEST + 1))
        self.assertEqual(self.assert_the_same(ORDERS), 2)

    def assert_the_same(self, queue: str) -> int:
        """Compare, and return the number of records."""
        seen = self.seen(queue)
        records = RecordDecoder().feed(b"".join(MessageWriter(has_runs=True).records(seen)))
        found: list[tuple[dict[str, Any], bytes]] = []
        for record in records:
            if "run" in record.header:
                found += messages_of(record.header, record.body)
            else:
                found.append((dict(record.header), record.body))
        self.assertEqual(
            [(list(properties.items()), body) for properties, body in found],
            [
                (list(record_header(message).items()), bytes(message.view.body) + message.view.extension)
                for message in seen
            ],
        )
        return len(records)


class ConnectionTests(ControlTestCase):
    """Runs on a connection."""

    limits = attrs.evolve(ControlLimits(), slice_messages=3, send_backlog=1000)

    def connected(self, path: str, protocols: str, **parameters: Any) -> Caller:
        caller = self.caller()
        caller.ask("GET", path, headers={"Connection": "Upgrade", "Upgrade": protocols}, **parameters)
        return caller

    def reported(self, caller: Caller) -> tuple[str, list[StreamRecord]]:
        """The protocol that the server chose, and the records that it sent."""
        head, _, records = caller.transport.value().partition(b"\r\n\r\n")
        return head.rpartition(b"Upgrade: ")[2].decode("ascii"), RecordDecoder().feed(records)

    def send(self, *records: StreamRecord) -> list[dict[str, Any]]:
        caller = self.connected("/v1/send", WITH_RUNS)
        caller.feed(b"".join(record.to_bytes() for record in records))
        for _ in records:
            self.clock.advance(0)
        return [dict(record.header) for record in self.reported(caller)[1]]

    def test_sent(self) -> None:
        """A run is answered as its number of messages, and they are in the queue in its order."""
        header = {"destination": ORDERS}
        first, second = self.send(
            StreamRecord({**header, "run": 4}, b"11223344"),
            StreamRecord({**header, "run": [1, 0, 2]}, b"566"),
        )
        self.assertEqual((first["messages"], second["messages"]), (4, 3))
        self.assertEqual(self.bodies(), [b"11", b"22", b"33", b"44", b"5", b"", b"66"])

    def test_refused(self) -> None:
        """A run with a key, an extension or sizes that do not add up is refused and ends the stream."""
        for more, body, why in (
            ({"run": 2, "key": "k"}, b"11", "key"),
            ({"run": 2, "extension_size": 1}, b"11", "extension"),
            ({"run": 2}, b"111", "equal size"),
            ({"run": LONGEST + 1}, b"", "must be from 1"),
        ):
            refused, end = self.send(StreamRecord({"destination": ORDERS, **more}, body))
            self.assertIn(why, refused["detail"])
            self.assertEqual(end, {"end": "error"})
        self.assertEqual(self.bodies(), [])

    def test_counts_as_its_messages(self) -> None:
        """A run counts towards the limit on pending records by its messages, also by empty ones."""
        single = cost(StreamRecord({"destination": ORDERS}))
        self.assertEqual(cost(StreamRecord({"destination": ORDERS, "run": LONGEST})), LONGEST * single)
        self.assertEqual(cost(StreamRecord({"destination": ORDERS, "run": 1 << 70})), LONGEST * single)
        self.assertEqual(cost(StreamRecord({"destination": ORDERS, "run": [0]})), LONGEST * single)

    def test_received_if_wanted(self) -> None:
        """Messages come in runs on a connection that asks for them, and one by one on any other."""
        self.put(b"1", b"2", b"3")
        for protocols, chosen, bodies in (
            (f"{PROTOCOL}, {WITH_RUNS}", WITH_RUNS, [b"123"]),
            (PROTOCOL, PROTOCOL, [b"1", b"2", b"3"]),
        ):
            caller = self.connected("/v1/receive", protocols, queue=ORDERS, count="3")
            protocol, records = self.reported(caller)
            self.assertEqual(protocol, chosen)
            self.assertEqual([record.body for record in records if "id" in record.header], bodies)
            caller.hang_up()
