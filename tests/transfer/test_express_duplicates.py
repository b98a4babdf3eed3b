"""[MS-MQQB] 3.1.5.8.1: the history of express messages."""

from __future__ import annotations

from collections.abc import Container
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.express_duplicates import ExpressDuplicates, is_recorded
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.transfer.support import START, express, for_several_queues, recoverable

OWN = (NULL_GUID.bytes_le, BETA.bytes_le)


class RecordedTests(SynchronousTestCase):
    """L{is_recorded}: which express messages may have others dropped as duplicates."""

    def test_each_outcome(self) -> None:
        """A line for each combination of its destination, its address and the security verdict."""
        queue = UserMessageView(user_packet(b"x", private_number=7))
        order_queue = UserMessageView(user_packet(b"x", private_number=4))
        for message, has_queue, is_trusted, is_refused, expected in (
            (queue, True, True, False, True),
            (queue, True, True, True, True),
            (queue, True, False, False, True),
            (queue, True, False, True, False),
            (queue, False, True, False, True),
            (queue, False, False, False, False),
            (order_queue, False, True, False, False),
            (order_queue, True, True, False, True),
        ):
            with self.subTest(queue=has_queue, trusted=is_trusted, refused=is_refused):
                recorded = is_recorded(
                    message, has_queue=has_queue, is_trusted=is_trusted, is_refused=is_refused
                )
                self.assertIs(recorded, expected)


class ExpressDuplicatesTests(SynchronousTestCase):
    """Express messages that ALPHA brings to BETA."""

    def setUp(self) -> None:
        self.now = START
        self.start(entries=3, lifetime=100.0)

    def start(self, *, entries: int, lifetime: float) -> None:
        settings = SessionSettings(duplicate_entries=entries, duplicate_lifetime=lifetime)
        self.core = ExpressDuplicates(settings)

    def classify(self, *views: UserMessageView, peer: UUID | None = ALPHA) -> list[bool]:
        """For each message whether it is a duplicate."""
        source = None if peer is None else peer.bytes_le
        found: Container[UserMessageView] = self.core.classify(views, OWN, source, self.now)
        return [view in found for view in views]

    def test_same_identifier(self) -> None:
        """A message that comes again is a duplicate, within one batch and later."""
        self.assertEqual(self.classify(express(1), express(1), express(2)), [False, True, False])
        self.assertEqual(self.classify(express(2), express(1)), [True, True])

    def test_mixed_batch(self) -> None:
        """One duplicate, or one message of another kind, changes nothing for the others of its batch."""
        self.start(entries=100, lifetime=100.0)
        self.classify(express(1), express(2))
        others = express(3), recoverable(4), express(5, GAMMA)
        self.assertEqual(self.classify(*others, express(2)), [False, False, False, True])
        self.assertEqual(self.classify(express(3), express(4), express(5), express(6)), [True] + [False] * 3)

    def test_another_sender(self) -> None:
        """A MessageID is its sender's own."""
        self.assertEqual(self.classify(express(1), peer=None), [False])
        self.assertEqual(self.classify(express(1, GAMMA), peer=None), [False])

    def test_recoverable(self) -> None:
        """Recoverable messages are passed over: their history is in the store."""
        self.assertEqual(self.classify(*[recoverable(1)] * 2), [False, False])
        self.assertEqual(len(self.core), 0)

    def test_for_another_queue_manager(self) -> None:
        """A message in transit is judged at its destination."""
        passing = UserMessageView(patch_queue_manager_address(express(1).packet, GAMMA.bytes_le))
        self.assertEqual(self.classify(passing, passing), [False, False])

    def test_forged_source(self) -> None:
        """A message to a direct name that names another source marks nothing, and drops nothing."""
        self.assertEqual(self.classify(express(1), peer=GAMMA), [False])
        self.assertEqual(self.classify(express(1)), [False])
        self.assertEqual(self.classify(express(1), peer=GAMMA), [False])
        handed_on = UserMessageView(patch_queue_manager_address(express(2).packet, BETA.bytes_le))
        self.assertEqual(self.classify(handed_on, peer=GAMMA), [False])
        self.assertEqual(self.classify(handed_on, peer=GAMMA), [True])

    def test_taken_back(self) -> None:
        """A message that was not acknowledged is accepted again."""
        self.classify(express(1), express(2))
        self.core.take_back([express(1), recoverable(3)])
        self.assertEqual(self.classify(express(1), express(2)), [False, True])

    def test_lifetime(self) -> None:
        """One that does not come again is forgotten after one to two lifetimes."""
        self.classify(express(1))
        self.now = self.now.later(99)
        self.assertEqual(self.classify(express(1)), [True])
        self.now = self.now.later(201)
        self.classify(express(2))
        self.now = self.now.later(100)
        self.assertEqual(self.classify(express(1)), [False])

    def test_detection_is_off(self) -> None:
        """With no entries every message is delivered."""
        self.start(entries=0, lifetime=100.0)
        self.assertEqual(self.classify(express(1), express(1)), [False, False])

    @given(st.lists(st.lists(st.integers(0, 12), max_size=4)), st.integers(1, 5))
    def test_bound(self, batches: list[list[int]], entries: int) -> None:
        """At least the latest are known, and no more than twice as many, with one batch over."""
        self.start(entries=entries, lifetime=100.0)
        recent: list[int] = []
        for batch in batches:
            for number, is_duplicate in zip(batch, self.classify(*map(express, batch)), strict=True):
                if number in recent[-entries:]:
                    self.assertTrue(is_duplicate)
                recent = [each for each in recent if each != number] + [number]
            self.assertLess(len(self.core), 2 * entries + 2 * 4)

    def test_generations(self) -> None:
        """A full generation is kept until the next one is full too, whether filled by runs or singly."""
        for batches in (((1, 2, 3), (4, 5)), ((1,), (2, 2), (3,), (4, 4), (5,))):
            self.start(entries=3, lifetime=100.0)
            for batch in batches:
                self.classify(*map(express, batch))
            self.assertEqual(len(self.core), 5)
            self.classify(express(6))
            self.assertEqual(len(self.core), 3)
            self.assertEqual(self.classify(express(1)), [False])
            self.assertEqual(self.classify(express(4)), [True])

    def test_a_duplicate_in_the_last_batch_of_a_generation(self) -> None:
        """The generation is full with it all the same."""
        for batch in ((1, 2), (3, 3), (4, 5), (6, 6)):
            self.classify(*map(express, batch))
        self.assertEqual(len(self.core), 3)

    def test_a_lifetime_ends_a_generation(self) -> None:
        """At its very end; a message of it is known for one more."""
        self.start(entries=100, lifetime=100.0)
        self.classify(express(1), express(2))
        self.now = self.now.later(99.5)
        self.classify(express(3))
        self.now = self.now.later(0.5)
        self.assertEqual(self.classify(express(1)), [True])
        self.now = self.now.later(100)
        self.assertEqual(self.classify(express(2), express(1)), [False, True])

    def test_the_first_generation(self) -> None:
        """It ends with the first lifetime of the clock, if that begins with 0."""
        self.now = Moment(0.0, START.wall)
        self.classify(express(1))
        for seconds, known in ((99.5, 1), (0.5, 1), (99.5, 1), (0.5, 0)):
            self.now = self.now.later(seconds)
            self.classify(recoverable(1))
            self.assertEqual(len(self.core), known, self.now)

    def test_taken_back_from_an_older_generation(self) -> None:
        """It is accepted again as well."""
        self.classify(express(1), express(2), express(3))
        self.core.take_back([express(2)])
        self.assertEqual(self.classify(express(2), express(3)), [False, True])

    def test_other_limits(self) -> None:
        """They apply from the next message on, to what is known too."""
        self.classify(express(1))
        self.core.configure(SessionSettings(duplicate_entries=10, duplicate_lifetime=50.0))
        self.classify(*map(express, range(2, 9)))
        self.assertEqual(len(self.core), 8)
        self.now = self.now.later(50)
        self.classify(express(9))
        self.now = self.now.later(50)
        self.assertEqual(self.classify(express(1)), [False])
        self.core.configure(SessionSettings(duplicate_entries=0))
        self.assertEqual(self.classify(express(1)), [False])

    def test_copies_to_several_queues(self) -> None:
        """They have one MessageID, and are distinguished by their destinations."""
        copies = [
            UserMessageView(for_several_queues(user_packet(destination=f"OS:beta\\private$\\{name}")))
            for name in ("orders", "invoices")
        ]
        self.assertEqual(self.classify(*copies), [False, False])
        self.assertEqual(self.classify(*copies), [True, True])
        self.core.take_back(copies[:1])
        self.assertEqual(self.classify(*copies), [False, True])

    def test_a_run_for_other_queue_managers(self) -> None:
        """One message that is not for this queue manager, or of another sender, leaves the others to it."""
        passing = UserMessageView(patch_queue_manager_address(express(1).packet, GAMMA.bytes_le))
        self.start(entries=100, lifetime=100.0)
        self.assertEqual(self.classify(express(1), passing, express(2)), [False] * 3)
        self.assertEqual(self.classify(passing, express(1), express(2)), [False, True, True])
        self.assertEqual(self.classify(express(3), express(3, GAMMA), peer=None), [False, False])
        self.assertEqual(self.classify(express(3, GAMMA), express(3), peer=None), [True, True])
        self.assertEqual(self.classify(), [])

    def test_what_is_no_run_is_recorded_as_what_it_is(self) -> None:
        """A message that has no place here leaves nothing behind by which another one would be dropped."""
        passing = UserMessageView(patch_queue_manager_address(express(2).packet, GAMMA.bytes_le))
        several = UserMessageView(for_several_queues(express(2).packet))
        for other in (passing, several, recoverable(2), express(2, GAMMA)):
            self.start(entries=100, lifetime=100.0)
            self.assertEqual(self.classify(express(1), other, peer=None), [False, False])
            self.assertEqual(self.classify(express(2), express(1), peer=None), [False, True])
        self.start(entries=100, lifetime=100.0)
        self.assertEqual(self.classify(passing), [False])
        self.assertEqual(len(self.core), 0)
