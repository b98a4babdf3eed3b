"""Queues are opened, shared and closed."""

from __future__ import annotations

from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.reading.descriptor import (
    OpenQueueDescriptor,
    QueueAccessType,
    QueueOperation,
    QueueShareMode,
    RemoteReadState,
)
from msmq.structures.management import OutgoingState
from msmq.structures.names.format_name import PublicFormatName, parse_format_names
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, BETA
from tests.queues.builders import NOW, ORDERS, put
from tests.queues.reading.handles import HandleTestCase, failures

RECEIVE = QueueAccessType.RECEIVE
SEND = QueueAccessType.SEND
PEEK = QueueAccessType.PEEK
DENY_NONE = QueueShareMode.DENY_NONE
DENY_RECEIVE = QueueShareMode.DENY_RECEIVE

BETA_ORDERS = "DIRECT=TCP:127.0.0.3\\private$\\orders"


class DescriptorTestCase(HandleTestCase):
    """ALPHA with a queue without open handles."""

    def setUp(self) -> None:
        super().setUp()
        self.descriptors.close(self.handle)

    def refused(
        self, name: str, access: QueueAccessType, share_mode: QueueShareMode = DENY_NONE
    ) -> Status | None:
        """Why it cannot be opened; what is opened is closed again."""
        try:
            handle = self.descriptors.open(parse_format_names(name), access, share_mode, now=NOW)
        except MQError as error:
            return error.status
        self.descriptors.close(handle)
        return None


class OpenTests(DescriptorTestCase):
    """[MS-MQDMPR] 3.1.7.1.5 Open Queue, of one queue."""

    def test_descriptor(self) -> None:
        """It is what was asked for, and belongs to the queue.

        MQDMPR-3.1.7.1.5-28 MQDMPR-3.1.1.16-02 MQDMPR-3.1.1.16-03
        """
        handle = self.open(PEEK, DENY_RECEIVE)
        self.assertEqual((handle.access, handle.share_mode), (PEEK, DENY_RECEIVE))
        self.assertEqual((handle.queue, handle.format_name), (self.queue, str(ORDERS)))
        self.assertEqual((handle.is_multiple, handle.children), (False, []))
        self.assertIs(handle.remote_read_state, RemoteReadState.NONE)
        self.assertEqual(self.queue.descriptors, {handle.handle})
        self.assertIs(self.descriptors.find(handle.handle), handle)

    def test_handles(self) -> None:
        """MQDMPR-3.1.1.16-01: of very many, no two have a handle or a context value in common."""
        handles = [self.open() for _ in range(10_000)]
        self.assertEqual(len({handle.handle for handle in handles}), 10_000)
        self.assertEqual(len({handle.context_value for handle in handles}), 10_000)

    def test_remote_read_states(self) -> None:
        """The three of the document."""
        self.assertEqual({state.value for state in RemoteReadState}, {"None", "Opened", "ReadyForRead"})

    def test_names_of_one_queue(self) -> None:
        """MQDMPR-3.1.7.1.5-12: every name of a queue opens the same one."""
        for name in (
            str(ORDERS),
            "DIRECT=OS:alpha\\private$\\orders",
            "DIRECT=OS:.\\PRIVATE$\\Orders",
            "DIRECT=TCP:127.0.0.2\\private$\\orders",
            f"PUBLIC={self.queue.definition.identifier}",
        ):
            for access in (RECEIVE, SEND):
                self.assertIs(self.open(access, name=name).queue, self.queue)

    def test_why_a_name_cannot_be_opened(self) -> None:
        """The refusal says whether the name does not fit the access, or nothing can be sent to it."""
        wrong = "can be opened for sending only"
        for name, access, why in (
            ("MULTICAST=234.1.1.1:8001", RECEIVE, wrong),
            ("MULTICAST=234.1.1.1:8001", SEND, "multicast is not supported"),
            ("DIRECT=HTTP://beta/msmq/private$/q", RECEIVE, wrong),
            ("DIRECT=HTTP://beta/msmq/private$/q", SEND, "the HTTP transport is not supported"),
        ):
            error = self.assertRaises(MQError, self.open, access, name=name)
            self.assertEqual(error.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
            self.assertIn(why, str(error))

    def test_active(self) -> None:
        """MQDMPR-3.1.1.2-18 MQDMPR-3.1.7.1.6-05: a queue is active while it has an open handle."""
        first, second = self.open(), self.open(SEND)
        self.assertTrue(self.queue.is_active)
        self.descriptors.close(first)
        self.assertTrue(self.queue.is_active)
        self.descriptors.close(second)
        self.assertFalse(self.queue.is_active)

    def test_an_outgoing_queue_is_active(self) -> None:
        """MQDMPR-3.1.1.2-18: it is so too while a message waits in it to be transferred."""
        handle = self.open(SEND, name=BETA_ORDERS)
        queue = handle.queue
        assert isinstance(queue, OutgoingQueue)
        self.assertTrue(queue.is_active)
        self.descriptors.close(handle)
        self.assertFalse(queue.is_active)
        put(self.model, queue, b"1")
        self.assertTrue(queue.is_active)

    def test_missing_queue(self) -> None:
        """One that is not there, here or elsewhere, cannot be read.

        MQDMPR-3.1.7.1.5-13
        """
        for name in (
            f"PRIVATE={ALPHA}\\0000ffff",
            "DIRECT=OS:.\\private$\\nope",
            "DIRECT=OS:.\\private$\\nope;aside",
            BETA_ORDERS,
        ):
            for access in set(QueueAccessType) - {SEND}:
                self.assertEqual(self.refused(name, access), Status.MQ_ERROR_QUEUE_NOT_FOUND, name)

    def test_sending_to_a_missing_queue_of_ours(self) -> None:
        """MQDMPR-3.1.7.1.5-14 MQDMPR-3.1.7.1.5-18: we do not make an outgoing queue to ourselves."""
        for name in (
            "DIRECT=OS:alpha\\private$\\nope",
            "DIRECT=OS:ALPHA.example.com\\nope",
            "DIRECT=OS:localhost\\private$\\nope",
            "DIRECT=TCP:127.0.0.2\\private$\\nope",
            f"PRIVATE={ALPHA}\\0000ffff",
        ):
            self.assertEqual(self.refused(name, SEND), Status.MQ_ERROR_QUEUE_NOT_FOUND, name)
        self.assertEqual(list(self.model.outgoing_queues()), [])

    def test_outgoing_queue(self) -> None:
        """One for each destination name, inactive and without a next hop; shared by all senders.

        MQDMPR-3.1.7.1.5-19
        """
        queue = self.open(SEND, name=BETA_ORDERS).queue
        assert isinstance(queue, OutgoingQueue)
        self.assertEqual((queue.definition.label, str(queue.destination)), (BETA_ORDERS, BETA_ORDERS))
        self.assertEqual((queue.state, queue.next_hops), (OutgoingState.INACTIVE, ()))
        self.assertIs(self.open(SEND, name=BETA_ORDERS.lower().replace("direct", "DIRECT")).queue, queue)
        other = self.open(SEND, name=f"PRIVATE={BETA}\\00000010").queue
        assert other is not None
        self.assertNotEqual(other.definition.identifier, queue.definition.identifier)

    def test_a_public_name_without_a_directory(self) -> None:
        """The location of the queue is unknown, unless there is an outgoing queue for it already."""
        self.assertEqual(self.refused(f"PUBLIC={BETA}", SEND), Status.MQ_ERROR_NO_DS)
        outgoing = self.model.outgoing(PublicFormatName(BETA), self.now)
        self.assertIs(self.open(SEND, name=f"PUBLIC={BETA}").queue, outgoing)

    def test_http(self) -> None:
        """MQDMPR-3.1.7.1.5-09: such a queue cannot be read."""
        for scheme in ("http", "https"):
            status = self.refused(f"DIRECT={scheme}://beta/msmq/private$/orders", RECEIVE)
            self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_multicast(self) -> None:
        """MQDMPR-3.1.7.1.5-11: such a queue cannot be read."""
        status = self.refused("MULTICAST=234.1.1.1:8001", PEEK)
        self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_transports_that_are_not_offered(self) -> None:
        """They cannot be sent to either."""
        for name in (
            "DIRECT=http://beta/msmq/private$/orders",
            "MULTICAST=234.1.1.1:8001",
            f"CONNECTOR={BETA}",
        ):
            status = self.refused(name, SEND)
            self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, name)

    def test_queues_that_can_only_be_read(self) -> None:
        """MQDMPR-3.1.7.1.5-10: system queues, journals and subqueues cannot be opened for sending."""
        for name in (
            f"MACHINE={ALPHA};DEADLETTER",
            "DIRECT=OS:.\\system$;deadxact",
            f"{ORDERS};JOURNAL",
            "DIRECT=OS:.\\private$\\orders;journal",
            "DIRECT=OS:.\\private$\\orders;aside",
        ):
            status = self.refused(name, SEND)
            self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION, name)
            self.assertIsNone(self.refused(name, RECEIVE), name)
        journal = self.queue.journal
        assert journal is not None
        with self.assertRaises(MQError):
            self.descriptors.open_queue(journal, ORDERS, SEND)

    def test_a_subqueue(self) -> None:
        """It is made when it is opened, and kept while it is open (reading 14)."""
        handle = self.open(RECEIVE, name="DIRECT=OS:.\\private$\\orders;aside")
        queue = handle.queue
        assert queue is not None
        self.assertIs(
            self.open(QueueAccessType.MOVE, name="DIRECT=OS:.\\private$\\orders;ASIDE").queue, queue
        )
        self.assertEqual(queue.users, 2)
        for each in map(self.descriptors.find, sorted(queue.descriptors)):
            self.assertEqual(self.model.collection.forget_empty(queue), [])
            self.assertFalse(queue.is_deleted)
            self.descriptors.close(each)
        self.model.collection.forget_empty(queue)
        self.assertTrue(queue.is_deleted)

    def test_sender_that_denies_receiving(self) -> None:
        """A handle that does not receive denies nothing (reading 18)."""
        status = self.refused(str(ORDERS), SEND, DENY_RECEIVE)
        self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_ACCESS_MODE)


class MultipleTests(DescriptorTestCase):
    """[MS-MQDMPR] 3.1.7.1.5 and 3.1.7.3.8, of several queues."""

    NAMES = f"{BETA_ORDERS},{ORDERS},DIRECT=OS:gamma\\private$\\orders"

    def open_all(self, names: str = NAMES) -> OpenQueueDescriptor:
        return self.descriptors.open(parse_format_names(names), SEND, now=NOW)

    def test_parent_and_children(self) -> None:
        """The parent has no queue; each child has one, and can be sent to.

        MQDMPR-3.1.7.1.5-05 MQDMPR-3.1.7.1.5-06 MQDMPR-3.1.1.16-03
        """
        parent = self.open_all()
        self.assertEqual((parent.access, parent.share_mode), (SEND, DENY_NONE))
        self.assertEqual((parent.is_multiple, parent.queue), (True, None))
        self.assertIs(parent.remote_read_state, RemoteReadState.NONE)
        self.assertEqual(len(parent.children), 3)
        for child in parent.children:
            self.assertEqual((child.access, child.share_mode, child.is_multiple), (SEND, DENY_NONE, False))
            self.assertIn(child, list(self.descriptors))
        handles = {handle.handle for handle in (parent, *parent.children)}
        self.assertEqual((len(handles), len(self.descriptors)), (4, 4))

    def test_queues(self) -> None:
        """MQDMPR-3.1.7.1.5-08: what is sent through the parent goes to every queue."""
        parent = self.open_all()
        queues = self.descriptors.queues_for(parent, QueueOperation.SEND)
        self.assertEqual(set(queues), {self.queue, *self.model.outgoing_queues()})
        self.assertEqual(len(queues), 3)

    def test_order(self) -> None:
        """Each name once, in alphabetical order, case-insensitively.

        MQDMPR-3.1.7.3.8-04 MQDMPR-3.1.7.3.8-05
        """
        gamma = "DIRECT=OS:gamma\\private$\\orders"
        parent = self.open_all(f"{self.NAMES},DIRECT=OS:GAMMA\\private$\\ORDERS,{BETA_ORDERS}")
        self.assertEqual(parent.format_name, f"{gamma},{BETA_ORDERS},{ORDERS}")
        self.assertEqual([child.format_name for child in parent.children], parent.format_name.split(","))

    def test_one_name_in_several_cases(self) -> None:
        """MQDMPR-3.1.7.3.8-05 MQDMPR-3.1.7.3.8-01: one name that is left is opened as one."""
        handle = self.open_all(f"{BETA_ORDERS},DIRECT=TCP:127.0.0.3\\PRIVATE$\\orders")
        self.assertEqual((handle.is_multiple, handle.format_name), (False, BETA_ORDERS))

    def test_reading(self) -> None:
        """MQDMPR-3.1.7.1.5-03: several queues cannot be read together."""
        for access in set(QueueAccessType) - {SEND}:
            status = self.refused(self.NAMES, access)
            self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_share_mode(self) -> None:
        """MQDMPR-3.1.7.1.5-04: nor denied to others."""
        status = self.refused(self.NAMES, SEND, DENY_RECEIVE)
        self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_ACCESS_MODE)

    def test_one_that_cannot_be_opened(self) -> None:
        """The status is that of the one, and nothing stays open.

        MQDMPR-3.1.7.1.5-07
        """
        status = self.refused(f"{self.NAMES},PRIVATE={ALPHA}\\0000ffff", SEND)
        self.assertEqual(status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
        self.assertEqual((len(self.descriptors), self.queue.is_active), (0, False))

    def test_distribution_list(self) -> None:
        """MQDMPR-3.1.7.1.5-02: without a directory its members are unknown (reading 22)."""
        for name in (f"DL={BETA}", f"{ORDERS},DL={BETA}"):
            status = self.refused(name, SEND)
            self.assertEqual(status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)

    def test_no_name(self) -> None:
        """There has to be one."""
        with self.assertRaises(MQError):
            self.descriptors.open([], SEND, now=NOW)

    def test_close(self) -> None:
        """MQDMPR-3.1.7.1.6-02: its children are closed with it, and cannot be used any more (reading 23)."""
        parent = self.open_all()
        self.descriptors.close(parent)
        self.assertEqual((len(self.descriptors), self.queue.is_active), (0, False))
        for child in parent.children:
            with self.assertRaises(MQError) as caught:
                self.descriptors.find(child.handle)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_INVALID_HANDLE)
        with self.assertRaises(MQError):
            self.descriptors.queues_for(parent, QueueOperation.SEND)

    def test_a_queue_that_goes(self) -> None:
        """A handle whose queue was deleted shows its parent by name, and all can be closed."""
        parent = self.open_all()
        self.model.delete_queue(self.queue)
        with self.assertRaises(MQError) as caught:
            self.descriptors.queues_for(parent, QueueOperation.SEND)
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)
        self.assertIn(str(ORDERS), caught.exception.detail)
        self.descriptors.close(parent)
        self.assertEqual(len(self.descriptors), 0)


class CloseTests(DescriptorTestCase):
    """[MS-MQDMPR] 3.1.7.1.6 Close Queue."""

    def test_waits_end(self) -> None:
        """In order, all of them, those of other handles aside (reading 24).

        MQDMPR-3.1.7.1.6-03 MQDMPR-3.1.1.16-05
        """
        handle, other = self.open(), self.open()
        cursor = self.cursor(handle)
        tags: list[str] = []
        for wait in (
            lambda: self.receive(handle=handle, seconds=None),
            lambda: self.peek(handle=handle, seconds=9),
            lambda: self.receive(cursor, handle=handle, seconds=None),
        ):
            self.assertIsNone(wait())
            tags.append(self.last_tag)
        self.assertEqual(list(handle.waiting), tags)
        self.assertIsNone(self.receive(handle=other, seconds=None))
        cancelled = Status.MQ_ERROR_OPERATION_CANCELLED
        self.assertEqual(failures(self.descriptors.close(handle)), [(tag, cancelled) for tag in tags])
        self.assertIsNone(self.model.deadline(self.now))
        self.assertEqual(self.put(b"1"), [(self.last_tag, [b"1"])])

    def test_cursors_are_closed(self) -> None:
        """MQDMPR-3.1.7.1.6-04: they are gone with it, also where they were at the end of the queue."""
        handle = self.open()
        cursors = [self.cursor(handle) for _ in range(3)]
        self.receive(cursors[0], handle=handle, seconds=1)
        self.wait(1)
        self.assertEqual(self.queue.ends, 1)
        self.descriptors.close(handle)
        self.assertEqual((handle.cursors, self.queue.ends), ({}, 0))
        for cursor in cursors:
            with self.assertRaises(MQError) as caught:
                self.descriptors.find_cursor(cursor.handle)
            self.assertEqual(caught.exception.status, Status.MQ_ERROR_INVALID_HANDLE)

    def test_what_is_closed(self) -> None:
        """It cannot be used any more; closing it again does nothing."""
        handle = self.open()
        self.descriptors.close(handle)
        self.assertEqual(self.descriptors.close(handle), [])
        self.put(b"1")
        invalid = Status.MQ_ERROR_INVALID_HANDLE
        self.assertEqual([self.receive(handle=handle), self.peek(handle=handle)], [invalid, invalid])
        with self.assertRaises(MQError) as caught:
            self.descriptors.find(handle.handle)
        self.assertEqual(caught.exception.status, invalid)

    def test_received_messages(self) -> None:
        """A message that was received through it stays with its reader, which decides later."""
        self.put(b"1")
        handle = self.open()
        self.receive(handle=handle)
        self.descriptors.close(handle)
        self.assertEqual(self.peek(handle=self.open()), Status.MQ_ERROR_IO_TIMEOUT)
        self.give_back(*self.taken)
        self.assertEqual(self.peek(handle=self.open()), b"1")

    def test_deleted_queue(self) -> None:
        """A handle of a deleted queue finds none, and is closed like any other (reading 23).

        MQDMPR-3.1.7.1.6-01 MQDMPR-3.1.7.1.4-02
        """
        handle = self.open()
        self.cursor(handle)
        self.receive(handle=handle, seconds=None)
        deletion = self.model.delete_queue(self.queue)
        self.assertEqual(failures(list(deletion.effects)), [(self.last_tag, Status.MQ_ERROR_QUEUE_DELETED)])
        gone = Status.MQ_ERROR_QUEUE_NOT_AVAILABLE
        self.assertIsNone(handle.queue)
        self.assertEqual([self.receive(handle=handle), self.peek(handle=handle)], [gone, gone])
        self.assertEqual(self.descriptors.close(handle), [])
        self.assertEqual((len(self.descriptors), handle.cursors), (0, {}))
