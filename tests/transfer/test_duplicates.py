"""[MS-MQQB] 3.1.5.8.1, 3.1.5.8.2, 3.1.2.8 and 3.1.6.7: the history of recoverable messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.state_records import StateChange, StateError
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView, views_of
from msmq.transfer import duplicates
from msmq.transfer.duplicates import PREFIX, DuplicateHistory
from tests.builders import GAMMA, user_packet
from tests.transfer.support import SETTINGS, START, for_several_queues, recoverable, transactional_packet


def run(message_ids: Iterable[int]) -> list[UserMessageView]:
    """Messages that arrived together."""
    return views_of([recoverable(message_id).packet for message_id in message_ids])


class History:
    """The history and its store.

    @ivar state: what the store keeps.
    """

    def __init__(self, settings: SessionSettings = SETTINGS) -> None:
        self.settings = settings
        self.state: dict[str, bytes] = {}
        self.now = START
        self.core = DuplicateHistory(settings)

    def apply(self, changes: Iterable[StateChange]) -> None:
        for name, value in changes:
            if value is None:
                self.state.pop(name, None)
            else:
                self.state[name] = value

    def take(self, *views: UserMessageView) -> list[bool]:
        """Messages arrive and are stored at once; of each whether it is a duplicate."""
        verdicts = self.core.classify(views, self.now)
        self.apply(self.core.take_changes(self.now))
        self.core.stored(self.now)
        return verdicts

    def advance(self, seconds: float) -> None:
        """Let time pass, each deadline at its own moment."""
        until = self.now.later(seconds)
        while (deadline := self.core.deadline) is not None and deadline <= until.monotonic:
            self.now = self.now.later(deadline - self.now.monotonic)
            self.core.expire(self.now)
        self.now = until

    def restart(self) -> None:
        self.core = DuplicateHistory(self.settings)
        self.core.load(self.state, self.now)


class Iterated(OrderedDict[bytes, object]):
    """A dictionary that counts how many of its keys were iterated over."""

    steps = 0

    def __iter__(self) -> Iterator[bytes]:
        for key in super().__iter__():
            type(self).steps += 1
            yield key


class DuplicateTests(SynchronousTestCase):
    def test_a_batch_costs_what_it_has_and_not_what_is_known(self) -> None:
        """A thousand messages are known, and a batch of two looks up its own only."""
        self.patch(duplicates, "OrderedDict", Iterated)
        history = History()
        history.take(*run(range(1_000)))
        steps = Iterated.steps
        self.assertEqual(history.take(*run([2_000, 2_001])), [False, False])
        self.assertEqual(history.take(*run([3_000, 7])), [False, True])
        self.assertLess(Iterated.steps - steps, 10)

    def test_a_second_copy_is_a_duplicate(self) -> None:
        """MQQB-3.1.5.8.1-02: in another batch or in the same."""
        history = History()
        self.assertEqual(history.take(recoverable(1), recoverable(2), recoverable(1)), [False, False, True])
        self.assertEqual(history.take(recoverable(2), recoverable(3)), [True, False])

    def test_two_senders_do_not_disturb_each_other(self) -> None:
        """MQQB-3.1.1.3-09: the same number of two queue managers, and both are delivered."""
        history = History()
        self.assertEqual(history.take(recoverable(1), recoverable(1, GAMMA)), [False, False])

    def test_express_and_transactional_messages_are_not_known(self) -> None:
        """MQQB-3.1.5.8.1-01: sequences decide about the one kind, and the other may come twice."""
        history = History()
        express = UserMessageView(user_packet(message_id=1))
        transactional = UserMessageView(transactional_packet(message_id=1))
        for _ in range(2):
            self.assertEqual(history.take(express, transactional), [False, False])
        self.assertEqual((len(history.core), history.state), (0, {}))

    def test_a_refused_message_may_come_again(self) -> None:
        """MQQB-3.1.5.8.2-04: over a quota now, delivered later."""
        history = History()
        self.assertEqual(history.core.classify([recoverable(1), recoverable(2)], START), [False, False])
        history.core.take_back([recoverable(1), recoverable(9)])
        history.take()
        self.assertEqual(history.take(recoverable(1), recoverable(2)), [False, True])

    def test_copies_to_several_queues(self) -> None:
        """They have one MessageID, and are distinguished by their destinations."""
        copies = [
            UserMessageView(
                for_several_queues(user_packet(recoverable=True, destination=f"OS:beta\\private$\\{name}"))
            )
            for name in ("orders", "invoices", "returns")
        ]
        history = History()
        self.assertEqual(history.take(*copies[:2], copies[0]), [False, False, True])
        self.assertEqual(history.take(*copies), [True, True, False])
        history.core.classify([recoverable(7)], START)
        history.core.take_back(copies)
        self.assertEqual(history.take(*copies), [True] * 3, "those are stored")

    def test_known(self) -> None:
        """A message is known from its arrival on, while it is stored and afterwards, unless it is refused."""
        core = DuplicateHistory(SETTINGS)
        view = recoverable(1)
        self.assertFalse(core.knows(view))
        core.classify([view], START)
        self.assertTrue(core.knows(view))
        core.take_back([view])
        self.assertFalse(core.knows(view))
        core.classify([view], START)
        core.take_changes(START)
        self.assertTrue(core.knows(view))
        self.assertFalse(core.knows(recoverable(2)))
        core.stored(START)
        self.assertTrue(core.knows(view))

    def test_other_limits(self) -> None:
        """They apply from the next message on, and the next batch removes what they exclude."""
        history = History()
        history.take(recoverable(1))
        history.take(recoverable(2))
        self.assertFalse(history.core.has_expired_rows)
        history.core.configure(SessionSettings(duplicate_entries=2, duplicate_lifetime=60))
        history.take(recoverable(3))
        self.assertTrue(history.core.has_expired_rows)
        history.take()
        self.assertFalse(history.core.has_expired_rows)
        self.assertEqual((len(history.core), len(history.state)), (2, 2))

    def test_a_copy_while_the_first_is_stored(self) -> None:
        """It is a duplicate already, and of what failed it is not one any more."""
        history = History()
        core = history.core
        core.classify([recoverable(1)], START)
        self.assertTrue(core.must_store)
        history.apply(core.take_changes(START))
        self.assertFalse(core.must_store)
        self.assertEqual(core.classify([recoverable(1), recoverable(2)], START), [True, False])
        core.failed()
        self.assertEqual(core.classify([recoverable(1), recoverable(2)], START), [False, False])

    def test_one_commit_at_a_time(self) -> None:
        """And each ends once."""
        core = DuplicateHistory(SETTINGS)
        core.take_changes(START)
        self.assertRaises(LocalProtocolError, core.take_changes, START)
        core.stored(START)
        self.assertRaises(LocalProtocolError, core.stored, START)
        self.assertRaises(LocalProtocolError, core.failed)


class RunTests(SynchronousTestCase):
    """Messages that arrived together: each is judged as it would be alone."""

    def test_a_message_twice(self) -> None:
        """Within one run the second is a duplicate, and the others are known as new ones."""
        history = History()
        self.assertEqual(history.take(*run([1, 2, 1, 3])), [False, False, True, False])
        self.assertEqual(history.take(*run([2, 3, 4])), [True, True, False])

    def test_messages_that_are_known_in_any_way(self) -> None:
        """Accepted in a run or alone, being stored, and stored."""
        history = History()
        history.take(*run([1, 2]))
        history.core.classify(run([3, 4]), START)
        history.core.take_changes(START)
        history.core.classify(run([5, 6]), START)
        for known in range(1, 7):
            self.assertEqual(history.core.classify(run([known, 10 * known]), START), [True, False])

    def test_every_message_as_what_it_is(self) -> None:
        """A message of another kind, sender or queue among them has no other one dropped."""
        several = for_several_queues(user_packet(recoverable=True, message_id=2))
        for packet, is_known in (
            (recoverable(2, GAMMA).packet, True),
            (user_packet(message_id=2), False),
            (transactional_packet(message_id=2), False),
            (several, True),
        ):
            for packets in ((recoverable(1).packet, packet), (packet, recoverable(1).packet), (packet,) * 2):
                history = History()
                views = views_of(packets)
                expected = [False, is_known and packets[0] is packets[1]]
                self.assertEqual(history.take(*views), expected)
                self.assertEqual(history.take(*views), [view.packet != packet or is_known for view in views])
                self.assertEqual(history.take(*run([2, 3])), [False, False])

    def test_runs_of_other_kinds(self) -> None:
        """They are judged as single messages are, and leave nothing that another one could be taken for."""
        for kind, is_known in (
            ([user_packet(message_id=number) for number in (2, 3)], False),
            ([transactional_packet(message_id=number) for number in (2, 3)], False),
            (
                [for_several_queues(user_packet(recoverable=True, message_id=number)) for number in (2, 3)],
                True,
            ),
        ):
            history = History()
            self.assertEqual(history.take(*views_of(kind)), [False, False])
            self.assertEqual(history.take(*views_of(kind)), [is_known, is_known])
            self.assertEqual(history.take(*run([2, 3])), [False, False])

    def test_runs_are_taken_back(self) -> None:
        """They may come again, all of them or some."""
        history = History()
        views = run([1, 2, 3])
        history.core.classify(views, START)
        history.core.take_back(views[1:])
        self.assertEqual(history.take(*views), [True, False, False])


class RoomTests(SynchronousTestCase):
    def test_ten_thousand_are_known(self) -> None:
        """MQQB-3.1.1.3-07: with one more the first is forgotten, and is accepted again."""
        history = History()
        for start in range(0, 10_000, 1000):
            history.take(*map(recoverable, range(start, start + 1000)))
        self.assertEqual(history.take(recoverable(10_000)), [False])
        self.assertEqual(history.take(recoverable(1), recoverable(0)), [True, False])

    def test_the_oldest_goes_first(self) -> None:
        """MQQB-3.1.5.8.2-05: of three and a fourth the first; a duplicate is young again."""
        history = History(SessionSettings(duplicate_entries=3))
        history.take(*map(recoverable, (1, 2, 3)))
        self.assertEqual(history.take(recoverable(1)), [True])
        history.take(recoverable(4))
        self.assertEqual(history.take(recoverable(1), recoverable(2)), [True, False])

    def test_the_store_keeps_no_more(self) -> None:
        """A page goes with the last of its entries."""
        history = History(SessionSettings(duplicate_entries=4))
        for number in range(50):
            history.take(recoverable(number))
        self.assertLessEqual(len(history.state), 6)
        history.restart()
        self.assertEqual(history.take(*map(recoverable, (45, 46, 49))), [False, True, True])


class AgeTests(SynchronousTestCase):
    def test_old_entries_go(self) -> None:
        """MQQB-3.1.6.7-01, MQQB-3.1.2.8-02: at 30 minutes one of 1801 seconds does, one of 1799 does not."""
        history = History(SessionSettings(duplicate_lifetime=1800))
        history.take(recoverable(0))
        history.advance(1798)
        history.take(recoverable(1))
        history.advance(2)
        history.advance(0.5)
        history.take(recoverable(2))
        history.advance(1799)
        self.assertEqual(history.now, START.later(3599.5))
        history.advance(0.5)
        self.assertEqual(history.take(recoverable(1), recoverable(2)), [False, True])

    def test_a_duplicate_is_young_again(self) -> None:
        """MQQB-3.1.5.8.1-03: an entry that a duplicate refreshed is there when its like are cleaned up."""
        history = History()
        history.take(recoverable(1), recoverable(2))
        history.advance(31 * 60)
        self.assertEqual(history.take(recoverable(1)), [True])
        history.advance(30 * 60)
        self.assertEqual(history.take(recoverable(1), recoverable(2)), [True, False])

    def test_the_timer_runs_while_there_are_entries(self) -> None:
        """MQQB-3.1.2.8-01, MQQB-3.1.6.7-02: from the first one on, and again after it expired."""
        history = History()
        self.assertIs(history.core.deadline, None)
        history.core.expire(START)
        history.take(recoverable(1))
        self.assertEqual(history.core.deadline, START.monotonic + 1800)
        history.advance(100)
        history.take(recoverable(2))
        self.assertEqual(history.core.deadline, START.monotonic + 1800)
        history.core.expire(history.now)
        self.assertEqual(len(history.core), 2)
        history.advance(1700)
        self.assertEqual(history.core.deadline, START.monotonic + 3600)
        history.advance(1800)
        self.assertEqual((history.core.deadline, len(history.core)), (None, 0))

    def test_a_restart_starts_the_timer(self) -> None:
        """MQQB-3.1.3.1-02: if the store kept entries, and only then."""
        history = History()
        history.restart()
        self.assertIs(history.core.deadline, None)
        history.take(recoverable(1))
        history.restart()
        self.assertEqual(history.core.deadline, history.now.monotonic + 1800)


class RestartTests(SynchronousTestCase):
    def test_the_history_survives(self) -> None:
        """MQQB-3.1.1.3-08: delivered, restarted, and the copy is a duplicate."""
        history = History()
        history.take(recoverable(1), recoverable(2))
        history.take(recoverable(3))
        history.restart()
        self.assertEqual(history.take(*map(recoverable, (1, 2, 3, 4))), [True, True, True, False])

    def test_only_what_is_stored_survives(self) -> None:
        """A crash before the commit, and the copy is delivered."""
        history = History()
        history.core.classify([recoverable(1)], START)
        history.core.take_changes(START)
        history.restart()
        self.assertEqual(history.take(recoverable(1)), [False])

    def test_names_are_not_used_twice(self) -> None:
        """A page of a new process does not overwrite an old one."""
        history = History()
        history.take(recoverable(1))
        history.restart()
        history.take(recoverable(2))
        self.assertEqual(set(history.state), {f"{PREFIX}1", f"{PREFIX}2"})

    def test_a_page_of_known_messages(self) -> None:
        """It is removed with the first commit after the start, and the one that has them stays."""
        history = History()
        history.take(recoverable(1))
        history.state[f"{PREFIX}2"] = history.state[f"{PREFIX}1"]
        history.restart()
        self.assertTrue(history.core.has_expired_rows)
        self.assertEqual(history.take(recoverable(1)), [True])
        self.assertEqual([*history.state], [f"{PREFIX}1"])

    def test_expired_messages_are_removed_even_if_a_commit_fails(self) -> None:
        """Its removal is repeated with the next commit."""
        history = History(SessionSettings(duplicate_entries=1))
        history.take(recoverable(1))
        history.take(recoverable(2))
        history.core.classify([recoverable(3)], START)
        history.core.take_changes(START)
        history.core.failed()
        history.take(recoverable(4))
        history.take()
        self.assertEqual(len(history.state), 1)

    def test_a_smaller_history_than_before(self) -> None:
        """The oldest are forgotten at the start, and their pages with the first commit."""
        history = History()
        for number in range(5):
            history.take(recoverable(number))
        history.settings = SessionSettings(duplicate_entries=2)
        history.restart()
        history.take()
        self.assertEqual(len(history.state), 2)
        self.assertEqual(history.take(recoverable(2), recoverable(4)), [False, True])

    def test_damage_stops_the_start(self) -> None:
        """A page that is cut short, longer, or of another version is named."""
        history = History()
        history.take(recoverable(1), recoverable(2))
        ((name, value),) = history.state.items()
        for other in [*(value[:size] for size in range(len(value))), value + b"\0", b"\2" + value[1:]]:
            error = self.assertRaises(StateError, DuplicateHistory(SETTINGS).load, {name: other}, START)
            self.assertEqual(error.name, name)

    @given(st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=20), st.data())
    def test_no_message_is_stored_twice(self, batches: list[list[int]], data: st.DataObject) -> None:
        """For any duplicates, failures of the store, and crashes in between."""
        history = History()
        delivered: list[int] = []
        for batch in batches:
            views = list(map(recoverable, batch))
            verdicts = history.core.classify(views, history.now)
            changes = history.core.take_changes(history.now)
            new = [number for number, known in zip(batch, verdicts, strict=True) if not known]
            end = data.draw(st.sampled_from(("stored", "failed", "killed before", "killed after")))
            if end in ("stored", "killed after"):
                history.apply(changes)
                delivered += new
            if end == "stored":
                history.core.stored(history.now)
            elif end == "failed":
                history.core.failed()
            else:
                history.restart()
        self.assertEqual(len(delivered), len(set(delivered)))
        self.assertEqual(history.take(*map(recoverable, range(31))), [n in delivered for n in range(31)])


class WrapTests(SynchronousTestCase):
    def test_numbers_that_wrap_are_numbers(self) -> None:
        """Behind 0xFFFFFFFF comes 0 again, and both are delivered."""
        history = History()
        self.assertEqual(history.take(recoverable(0xFFFFFFFF), recoverable(0)), [False, False])

    def test_the_last_second_of_32_bits(self) -> None:
        """A time stamp of 2106 is stored like another."""
        history = History()
        history.now = Moment(0.0, float(0xFFFFFFFF))
        history.take(recoverable(1))
        history.restart()
        self.assertEqual(history.take(recoverable(1)), [True])
