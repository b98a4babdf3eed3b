"""[MS-MQQB] 3.1.1.3.2: streams and duplicates as one state."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateChange
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.duplicates import DuplicateHistory
from msmq.transfer.incoming_history import IncomingHistory
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.incoming_streams import IncomingStreams
from tests.transfer.support import SETTINGS, START, express, recoverable, transactional_packet

PEER = "10.0.0.9"
FIRST = START.unix_seconds << 32 | 1


def transactional(number: int) -> UserMessageView:
    return UserMessageView(transactional_packet(place=(FIRST, number, number - 1), message_id=100 + number))


class IncomingHistoryTests(SynchronousTestCase):
    """Messages of every kind from one peer."""

    def setUp(self) -> None:
        self.state: dict[str, bytes] = {}
        self.restart()

    def restart(self, settings: SessionSettings = SETTINGS) -> None:
        """Another life on the same store."""
        self.history = IncomingHistory(IncomingStreams(settings), DuplicateHistory(settings))
        self.history.load(self.state, START)

    def classify(self, *views: UserMessageView) -> list[Verdict | None]:
        """The verdict about each message; C{None} for one that is simply accepted."""
        verdicts = self.history.classify(views, PEER, START)
        self.assertLessEqual(set(verdicts), set(views))
        return [verdicts.get(view) for view in views]

    def apply(self, changes: Iterable[StateChange]) -> None:
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def store(self) -> tuple[float | None, float | None]:
        """What was judged is stored."""
        self.apply(self.history.take_changes(START))
        return self.history.stored(START)

    def test_each_kind(self) -> None:
        """Transactional messages have a verdict each, and of others duplicates alone."""
        accepted, duplicate = Verdict.ACCEPTED, Verdict.DUPLICATE
        mixed = (recoverable(1), transactional(1), express(1), recoverable(1), express(1), transactional(2))
        self.assertEqual(self.classify(*mixed), [None, accepted, None, duplicate, None, accepted])
        self.assertEqual(self.classify(transactional(2), transactional(3)), [duplicate, accepted])
        self.assertEqual(self.classify(recoverable(1), recoverable(2)), [duplicate, None])
        self.assertEqual(self.classify(transactional(3)), [duplicate])
        self.assertEqual(self.classify(recoverable(2)), [duplicate])
        self.assertEqual(self.classify(express(1)), [None])
        self.assertEqual(self.classify(), [])

    def test_passed(self) -> None:
        """What would be a duplicate now is known without being judged, and express messages never are."""
        once = transactional(1), recoverable(1), express(1)
        self.assertEqual([self.history.has_passed(each) for each in once], [False] * 3)
        self.classify(*once)
        self.assertEqual([self.history.has_passed(each) for each in once], [True, True, False])
        self.assertFalse(self.history.has_passed(transactional(2)))
        for _ in range(2):
            self.store()
            self.assertEqual([self.history.has_passed(each) for each in once], [True, True, False])

    def test_both_are_stored(self) -> None:
        """They come back after a restart, and the caller learns when each is due."""
        self.assertEqual(self.history.deadlines(), (None, None))
        self.classify(transactional(1), recoverable(1))
        owed, forgotten = self.store()
        self.assertEqual(owed, START.monotonic + SETTINGS.order_ack_timeout)
        self.assertEqual(forgotten, START.monotonic + SETTINGS.duplicate_lifetime)
        self.assertEqual(self.history.deadlines(), (owed, forgotten))
        self.restart()
        self.assertEqual(self.history.deadlines()[1], forgotten)
        self.assertEqual(
            self.classify(transactional(1), recoverable(1), transactional(2)),
            [Verdict.DUPLICATE, Verdict.DUPLICATE, Verdict.ACCEPTED],
        )

    def test_neither_is_stored(self) -> None:
        """After a failed commit all its messages may come again, and nothing is due."""
        self.classify(transactional(1), recoverable(1))
        self.history.take_changes(START)
        self.assertEqual(self.history.failed(), (None, None))
        self.assertEqual(self.classify(transactional(1), recoverable(1)), [Verdict.ACCEPTED, None])
        self.store()
        self.assertEqual(
            self.classify(transactional(1), recoverable(1)), [Verdict.DUPLICATE, Verdict.DUPLICATE]
        )

    def test_other_limits(self) -> None:
        """They apply to both from the next message on."""
        settings = SessionSettings(duplicate_entries=1, duplicate_lifetime=7, order_ack_timeout=3)
        self.history.configure(settings)
        self.classify(transactional(1), recoverable(1), recoverable(2))
        self.assertEqual(self.store(), (START.monotonic + 3, START.monotonic + 7))
        self.assertEqual(self.classify(recoverable(2), recoverable(1)), [Verdict.DUPLICATE, None])
