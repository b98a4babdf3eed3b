"""[queues] journal_on = "acknowledgement": acknowledgements in any order, and sessions that end in
between.
"""

from __future__ import annotations

import struct

from tests.nodes.journal.support import (
    REFUSED,
    CutStore,
    ReceiverTestCase,
    admin_ack,
)
from tests.nodes.scripted import (
    DEADLETTER,
    Heard,
)


class OrderTests(ReceiverTestCase):
    """The two acknowledgements come in either order."""

    def test_handover_first(self) -> None:
        """The session acknowledgement alone journals nothing; the acknowledgement that follows does."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        self.hand_over()
        self.assertEqual((self.waiting(self.alpha), self.unproven, self.journal), (0, 2, []))
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"1"], [(b"2", REFUSED)]))
        self.verify_nothing_left()

    def test_acknowledgement_first(self) -> None:
        """A message does not leave its outgoing queue by an administration acknowledgement alone."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.assertEqual((self.waiting(self.alpha), self.journal, self.kept(DEADLETTER)), (2, [], []))
        self.hand_over()
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"1"], [(b"2", REFUSED)]))
        self.verify_nothing_left()

    def test_same_packet(self) -> None:
        """An acknowledgement that carries the session acknowledgement counts for both."""
        self.ask(self.to, b"1")
        [message] = self.peer.messages
        self.say(admin_ack(message))
        self.peer.acknowledge()
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_answers_about_other_messages(self) -> None:
        """Answers about messages that ask for no copy are forgotten with them."""
        assert isinstance(self.alpha.store, CutStore)
        self.ask(self.to, b"1", journal=False)
        self.say(admin_ack(self.peer.messages[0]))
        self.assertEqual((self.alpha.store.names(), self.refused()), ([], {}))
        self.ask(self.to, b"2")
        self.ask(self.to, b"3", journal=False)
        self.say(*map(admin_ack, self.peer.messages[1:]))
        self.assertEqual(len(self.alpha.store.names()), 1)
        self.hand_over()
        self.assertEqual(self.journal, [b"2"])
        self.ask(self.to, b"4", journal=False)
        self.clock.advance(61)
        self.assertEqual((self.waiting(self.alpha), self.alpha.store.names()), (1, []))
        self.hand_over()
        self.verify_nothing_left()

    def test_invented_answers(self) -> None:
        """Answers about messages that were never sent do not keep a message from being journaled."""
        self.ask(self.to, b"1", b"2")
        first, second = self.peer.messages
        invented = [
            Heard(each.packet[:56] + struct.pack("<I", each.message_id + 100 * number) + each.packet[60:])
            for number in range(1, 50)
            for each in (first, second)
        ]
        self.say(*map(admin_ack, invented))
        self.say(admin_ack(first), admin_ack(second))
        self.hand_over()
        self.assertEqual(self.journal, [b"1", b"2"])
        self.verify_nothing_left()

    def test_another_queue(self) -> None:
        """An acknowledgement counts only where the message said that it is to go."""
        self.queue(self.alpha, "other")
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        self.say(admin_ack(message, admin="TCP:127.0.0.2\\private$\\other"))
        self.assertEqual((self.journal, self.unproven), ([], 1))
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_it_has_to_be_enqueued(self) -> None:
        """An acknowledgement that its administration queue refuses proves nothing."""
        self.ask(self.to, b"1")
        self.hand_over()
        [message] = self.peer.messages
        self.run_to_end(self.alpha.service.set_queue(".\\private$\\admin", {"quota": 0}))
        self.say(admin_ack(message))
        self.assertEqual((self.journal, self.unproven), ([], 1))
        self.run_to_end(self.alpha.service.set_queue(".\\private$\\admin", {"quota": 100}))
        self.say(admin_ack(message))
        self.assertEqual(self.journal, [b"1"])


class SessionEndTests(ReceiverTestCase):
    """A session ends while messages are being removed from the outgoing queue."""

    def test_while_messages_leave(self) -> None:
        """Messages that leave when the session closes leave once, and are not sent again."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"1", b"2", dead_letter=True)
        first, second = self.peer.messages
        self.say(admin_ack(first))
        store.is_slow = True
        self.hand_over()
        self.peer.hang_up()
        self.clock.advance(1)
        store.finish()
        self.clock.advance(10)
        self.assertEqual((self.journal, self.unproven, len(self.peers)), ([b"1"], 1, 1))
        store.is_slow = True
        self.say(admin_ack(second, REFUSED), peer=self.dial("ALPHA"))
        store.finish()
        self.assertEqual(self.kept(DEADLETTER), [(b"2", REFUSED)])
        self.verify_nothing_left()

    def test_expiry_while_messages_leave(self) -> None:
        """A message that expires while it is being moved waits on like any other."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"1", dead_letter=True, time_to_reach_queue=3)
        store.is_slow = True
        self.hand_over()
        self.clock.advance(5)
        store.finish()
        self.clock.advance(1)
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (1, []))
        self.say(admin_ack(self.peer.messages[0]))
        self.assertEqual((self.journal, self.reasons()), ([b"1"], []))
        self.verify_nothing_left()

    def test_before_the_handover(self) -> None:
        """A message whose acknowledgement came is sent again, and is journaled with the next handover."""
        self.ask(self.to, b"1")
        self.say(admin_ack(self.peer.messages[0]))
        self.peer.hang_up()
        self.clock.advance(6)
        self.assertEqual((len(self.peers), self.peer.bodies, self.journal), (2, [b"1"], []))
        self.hand_over()
        self.assertEqual(self.journal, [b"1"])
        self.verify_nothing_left()

    def test_answer_in_between(self) -> None:
        """An acknowledgement that comes while its message is being moved settles it once it is."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        for number in range(2):
            self.ask(self.to, b"%d" % number)
            store.is_slow = True
            self.hand_over()
            self.say(admin_ack(self.peer.messages[-1]))
            self.assertEqual(self.journal, [])
            store.finish()
            self.clock.advance(1)
            self.assertEqual(self.journal, [b"%d" % number])
        self.verify_nothing_left()
