"""[MS-MQQB] 3.1.5.7: FinalAcks that come between a restart and the reading of their messages."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateError
from msmq.transfer.early_final_acks import PREFIX, EarlyFinalAcks

SEQUENCE = 7 << 32 | 1
RECEIVED = 0x4000


class EarlyFinalAckTests(SynchronousTestCase):
    """The table and its store; the whole way is in C{tests.nodes.outgoing}."""

    def setUp(self) -> None:
        self.state: dict[str, bytes] = {}
        self.restart()

    def restart(self, limit: int = 10) -> None:
        self.early = EarlyFinalAcks(limit)
        self.early.load(self.state)

    def store(self) -> int:
        """Apply what is to be stored; how many changes that is."""
        changes = self.early.take_changes()
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value
        return len(changes)

    def test_it_stays_until_its_message_is_removed(self) -> None:
        """Over a restart, and also when the message was read and its result is not stored."""
        self.assertTrue(self.early.add(SEQUENCE, 1, 100, RECEIVED))
        self.store()
        for _ in range(2):
            self.restart()
            self.assertEqual(self.early.take(SEQUENCE, 1, 100, "message"), RECEIVED)
            self.assertIs(self.early.take(SEQUENCE, 1, 100, "message"), None)
            self.assertEqual(self.store(), 0)
        self.early.removed("message")
        self.early.removed("another")
        self.store()
        self.assertEqual(self.state, {})

    def test_another_message(self) -> None:
        """A forged one names another MessageID, and has no effect."""
        self.early.add(SEQUENCE, 1, 101, RECEIVED)
        for sequence, number, message_id in ((SEQUENCE, 1, 100), (SEQUENCE, 2, 101), (SEQUENCE + 1, 1, 101)):
            self.assertIs(self.early.take(sequence, number, message_id, "message"), None)

    def test_another_message_before_or_after(self) -> None:
        """A forged one that names another MessageID hides no other one, with and without a restart."""
        for order in ((101, 100), (100, 101), (101, 100, 102, 101)):
            for restarts in (False, True):
                for message_id in order:
                    message_class = RECEIVED if message_id == 100 else 0xC402
                    self.assertTrue(self.early.add(SEQUENCE, 1, message_id, message_class))
                    self.store()
                if restarts:
                    self.restart()
                self.assertEqual((len(self.early), len(self.state)), (len(set(order)),) * 2)
                self.assertEqual(self.early.take(SEQUENCE, 1, 100, "message"), RECEIVED)
                self.early.clear()
                self.early.removed("message")
                self.store()
                self.assertEqual((len(self.early), self.state), (0, {}))

    def test_a_copy(self) -> None:
        """It is stored again, since the first may not be yet, but not while its result is being stored."""
        for _ in range(2):
            self.assertTrue(self.early.add(SEQUENCE, 1, 100, RECEIVED))
            self.assertEqual(self.store(), 1)
        self.early.take(SEQUENCE, 1, 100, "message")
        self.assertTrue(self.early.add(SEQUENCE, 1, 100, RECEIVED))
        self.assertEqual(self.store(), 0)
        self.early.removed("message")
        self.store()
        self.assertEqual((self.state, len(self.early)), ({}, 0))
        self.assertTrue(self.early.add(SEQUENCE, 1, 100, RECEIVED))
        self.assertEqual((self.store(), len(self.early)), (1, 1))

    def test_another_class(self) -> None:
        """The first result of a message counts, with and without a restart before its message is read."""
        for restarts in (False, True):
            for message_class in (RECEIVED, 0xC402):
                self.assertTrue(self.early.add(SEQUENCE, 1, 100, message_class))
                self.store()
            if restarts:
                self.restart()
            self.assertEqual(self.early.take(SEQUENCE, 1, 100, "message"), RECEIVED)
            self.early.removed("message")
            self.store()

    def test_what_matches_no_message_goes(self) -> None:
        """When all messages have been read, but for those whose results are not stored."""
        self.early.add(SEQUENCE, 1, 100, RECEIVED)
        self.early.add(SEQUENCE, 2, 101, RECEIVED)
        self.store()
        self.early.take(SEQUENCE, 2, 101, "message")
        self.early.clear()
        self.store()
        self.assertEqual([*self.state], [f"{PREFIX}{SEQUENCE << 32 | 2}"])

    def test_limit(self) -> None:
        """One more is not kept."""
        self.restart(limit=2)
        kept = [self.early.add(SEQUENCE, number, number, RECEIVED) for number in (1, 2, 3, 1)]
        self.assertEqual(kept, [True, True, False, True])

    def test_damage(self) -> None:
        """A value that is cut short, longer, or of another version stops the start, by its name."""
        self.early.add(SEQUENCE, 1, 100, RECEIVED)
        self.store()
        [(name, value)] = self.state.items()
        for damaged in (value[:-1], value + b"\0", b"\x09" + value[1:]):
            self.state[name] = damaged
            self.assertIn(name, str(self.assertRaises(StateError, self.restart)))

    def test_the_limit_counts_those_that_were_taken(self) -> None:
        """Until their messages are removed; clearing the others makes room at once."""
        self.restart(limit=2)
        for number in (1, 2):
            self.early.add(SEQUENCE, number, number, RECEIVED)
        self.assertEqual(self.early.take(SEQUENCE, 1, 1, "message"), RECEIVED)
        self.assertEqual(len(self.early), 2)
        self.assertFalse(self.early.add(SEQUENCE, 3, 3, RECEIVED))
        self.early.clear()
        self.assertEqual(len(self.early), 1)
        self.assertTrue(self.early.add(SEQUENCE, 3, 3, RECEIVED))
        self.assertFalse(self.early.add(SEQUENCE, 4, 4, RECEIVED))
        self.early.removed("message")
        self.assertTrue(self.early.add(SEQUENCE, 4, 4, RECEIVED))
        self.store()
        self.assertEqual(set(self.state), {f"{PREFIX}{SEQUENCE << 32 | number}" for number in (3, 4)})

    def test_a_class_of_its_own(self) -> None:
        """Each is found with the class that it had, also after a restart."""
        for number, message_class in ((1, RECEIVED), (2, 0xC402)):
            self.early.add(SEQUENCE, number, 100, message_class)
        self.store()
        self.restart()
        self.assertEqual(self.early.take(SEQUENCE, 2, 100, "b"), 0xC402)
        self.assertEqual(self.early.take(SEQUENCE, 1, 100, "a"), RECEIVED)
