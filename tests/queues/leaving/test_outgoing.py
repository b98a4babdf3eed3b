"""Outgoing queues."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.effects import OutgoingReady
from msmq.queues.outgoing import HISTORY_LENGTH, ConnectionHistoryEntry
from msmq.structures.management import ConnectionStatus, OutgoingState
from msmq.structures.names.format_name import parse_format_name
from tests.builders import BETA
from tests.queues.builders import NOW, arriving, bodies, create, model, put
from tests.queues.simulation import Alpha

BETA_ORDERS = parse_format_name("DIRECT=OS:beta\\private$\\orders")


class OutgoingQueueTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.3."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = self.model.outgoing(BETA_ORDERS, NOW)

    def test_new_queue(self) -> None:
        """It begins inactive, without next hops, named and labelled by its destination.

        MQDMPR-3.1.7.1.5-19
        """
        self.assertEqual(self.queue.state, OutgoingState.INACTIVE)
        self.assertEqual((self.queue.destination, self.queue.next_hops), (BETA_ORDERS, ()))
        self.assertEqual(self.queue.definition.label, "DIRECT=OS:beta\\private$\\orders")
        self.assertEqual(self.model.format_name(self.queue), BETA_ORDERS)
        self.assertEqual(len(self.queue.history), 0)

    def test_locked(self) -> None:
        """With hardened security queues are locked, except over HTTP; a restart does not change that."""
        for is_hardened, locked in ((True, OutgoingState.LOCKED), (False, OutgoingState.INACTIVE)):
            alpha = Alpha(is_hardened=is_hardened)
            states = {
                "DIRECT=OS:beta\\private$\\orders": locked,
                "DIRECT=TCP:127.0.0.3\\private$\\orders": locked,
                f"PRIVATE={BETA}\\10": locked,
                f"PUBLIC={BETA}": locked,
                "DIRECT=HTTP://beta/msmq/private$/orders": OutgoingState.INACTIVE,
                "DIRECT=HTTPS://beta/msmq/private$/orders": OutgoingState.INACTIVE,
            }
            for text, state in states.items():
                queue = alpha.model.outgoing(parse_format_name(text), NOW)
                self.assertIs(queue.state, state)
                alpha.put(queue, b"1")
            restored = alpha.restart().model.outgoing_queues()
            self.assertEqual([each.state for each in restored], list(states.values()))

    def test_a_name_that_is_not_strict(self) -> None:
        """A queue whose name holds a space, as administrators may give it, is there after a restart."""
        alpha = Alpha()
        name = parse_format_name("DIRECT=OS:beta\\private$\\late orders", lenient=True)
        alpha.put(alpha.model.outgoing(name, NOW), b"1")
        [queue] = alpha.restart().model.outgoing_queues()
        self.assertEqual((queue.destination, queue.message_count), (name, 1))

    def test_one_queue_for_each_name(self) -> None:
        """The same name, in any case, has the same queue; another name of the same queue has its own."""
        same = parse_format_name("DIRECT=OS:BETA\\PRIVATE$\\Orders")
        other = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders")
        self.assertIs(self.model.outgoing(same, NOW), self.queue)
        self.assertIsNot(self.model.outgoing(other, NOW), self.queue)
        self.assertEqual(len(list(self.model.outgoing_queues())), 2)
        self.assertEqual(list(self.model.queues()), [])

    def test_messages_make_it_ready(self) -> None:
        """The sender of messages is notified once for a batch."""
        self.assertFalse(self.queue.is_active)
        self.assertEqual(put(self.model, self.queue, b"1", b"2"), [OutgoingReady(self.queue)])
        self.assertTrue(self.queue.is_active)

    def test_transfer(self) -> None:
        """Messages are taken in order, stay until the other side has them, and come back if it has not."""
        put(self.model, self.queue, b"1", arriving(b"2", priority=5), b"3")
        sent = self.model.take(self.queue, 2, "session", NOW)[0]
        self.assertEqual(bodies(sent), [b"2", b"1"])
        self.model.removed(self.model.remove(sent[:1]), NOW)
        self.assertEqual(self.model.release(sent, NOW), [OutgoingReady(self.queue)])
        self.assertEqual(bodies(self.model.take(self.queue, 9, "session", NOW)[0]), [b"1", b"3"])

    def test_position_is_what_a_session_sends(self) -> None:
        """A position gives its packet, and says whether the other side has to store it."""
        express, recoverable = arriving(b"1"), arriving(b"2", recoverable=True)
        put(self.model, self.queue, express, recoverable)
        sent = self.model.take(self.queue, 2, "session", NOW)[0]
        self.assertEqual([position.packet for position in sent], [express.packet, recoverable.packet])
        self.assertEqual([position.is_recoverable for position in sent], [False, True])

    def test_transactional_messages_stay_objects(self) -> None:
        """Messages of priority 0, as transactional ones are, are not packed; a local queue packs all."""
        self.assertEqual([self.queue.may_pack(7 - priority) for priority in range(8)], [False] + [True] * 7)
        local = create(self.model)
        self.assertEqual([local.may_pack(level) for level in range(8)], [True] * 8)

    def test_history_has_an_end(self) -> None:
        """The history has the latest attempts to connect, up to a limit."""
        for number in range(HISTORY_LENGTH + 10):
            entry = ConnectionHistoryEntry(
                ConnectionStatus.PING_FAILURE, time=number, addresses=("IP=127.0.0.3",)
            )
            self.queue.history.append(entry)
        self.assertEqual(len(self.queue.history), HISTORY_LENGTH)
        self.assertEqual((self.queue.history[0].time, self.queue.history[-1].time), (10, HISTORY_LENGTH + 9))


class OutgoingStateTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.1.3 State."""

    def test_states(self) -> None:
        """MQDMPR-3.1.1.3-03: the eight states of the document, and no other."""
        self.assertEqual(
            {state.value for state in OutgoingState},
            {
                "INACTIVE",
                "WAITING",
                "NEED VALIDATION",
                "ONHOLD",
                "CONNECTED",
                "DISCONNECTING",
                "DISCONNECTED",
                "LOCKED",
            },
        )
