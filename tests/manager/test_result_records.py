"""Records of results that wait for space: what is stored, and what is refused when it is read again."""

from __future__ import annotations

from msmq.manager.result_records import PREFIX, MessageResult, ResultRecords, removal_of
from msmq.persistence.changes import PutState, RemoveState
from msmq.persistence.state_records import StateError
from msmq.queues.queue import Queue
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import user_packet
from tests.manager.support import ManagerTestCase

ABOUT = bytes(range(20))
NAME = "DIRECT=TCP:127.0.0.9\\private$\\order_queue$"


class ResultRecordsTests(ManagerTestCase):
    """Results about messages that left while the store was full, for a local and an outgoing queue."""

    def setUp(self) -> None:
        super().setUp()
        model = self.alpha.model
        records = ResultRecords(model)
        self.state: dict[str, bytes] = {}
        self.results: list[MessageResult] = []
        local = model.find(parse_path_name(self.admin))
        assert local is not None
        self.local = local
        for queue in (local, model.outgoing(parse_format_name(NAME), self.clock.now()), local):
            self.record(records, queue)

    def record(self, records: ResultRecords, queue: Queue) -> None:
        view = UserMessageView(user_packet(b"%d" % len(self.results)))
        made = MessageResult(queue, view, ABOUT, MessageClass.ACK_RECEIVE, is_bound=True, is_awaited=True)
        result, change = records.recorded(made)
        assert isinstance(change, PutState)
        self.state[change.name] = change.value
        self.results.append(result)

    def test_read_again(self) -> None:
        """They are read in their order with all that is needed to send them, and keep their numbers;
        the next one has another.
        """
        records = ResultRecords(self.alpha.model)
        found, stale = records.load(dict(reversed(self.state.items())), self.clock.now())
        self.assertEqual(stale, [])
        self.assertEqual(
            [(each.queue, each.view.packet, each.about, each.message_class, each.record) for each in found],
            [
                (each.queue, each.view.packet, ABOUT, MessageClass.ACK_RECEIVE, each.record)
                for each in self.results
            ],
        )
        self.record(records, self.local)
        self.assertEqual(len(self.state), 4)

    def test_removed_with_the_result(self) -> None:
        """The record of a result is removed by its name."""
        self.assertEqual(
            [removal_of(each) for each in self.results], [RemoveState(name) for name in self.state]
        )

    def test_for_a_deleted_queue(self) -> None:
        """Those for a local queue that was deleted meanwhile are removed, not sent."""
        self.run_to_end(self.service.delete_queue(self.admin))
        found, stale = ResultRecords(self.alpha.model).load(self.state, self.clock.now())
        self.assertEqual([str(each.queue.definition.path) for each in found], [NAME])
        self.assertEqual(stale, [RemoveState(f"{PREFIX}1"), RemoveState(f"{PREFIX}3")])

    def test_a_name_of_a_peer(self) -> None:
        """A queue may have any name that packets of peers may state."""
        queue = self.alpha.model.outgoing(
            parse_format_name("DIRECT=OS:a b\\private$\\c&d", lenient=True), self.clock.now()
        )
        records = ResultRecords(self.alpha.model)
        self.state.clear()
        self.record(records, queue)
        found, _ = ResultRecords(self.alpha.model).load(self.state, self.clock.now())
        self.assertEqual([each.queue for each in found], [queue])

    def test_damaged(self) -> None:
        """The start is refused with the name of a value that is damaged anywhere but in a body."""
        value = self.state[f"{PREFIX}2"]
        path = value.index(NAME.encode())
        for damaged in (
            b"",
            b"\x02" + value[1:],
            value[:1] + b"\x77\x77" + value[3:],
            value[:path] + b"\xff" + value[path + 1 :],
            value[:path] + b"NOTHING" + value[path + 7 :],
            value[:-1],
            value + b"\0",
        ):
            with self.assertRaises(StateError) as caught:
                ResultRecords(self.alpha.model).load({f"{PREFIX}2": damaged}, self.clock.now())
            self.assertEqual(caught.exception.name, f"{PREFIX}2")
