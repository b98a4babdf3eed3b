"""[MS-MQQB] 3.1.5.8.6: transactional messages are accepted in order, and once."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.persistence.state_records import StateError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.incoming_stream import Verdict
from msmq.transfer.incoming_streams import PREFIX, IncomingStreams, destination_key
from tests.builders import ALPHA, BETA, GAMMA
from tests.transfer.support import SETTINGS, START, Receiver, transactional_packet

X = 1_700_000_000 << 32 | 1
Y = X + 1
ACCEPTED, DUPLICATE, OUT_OF_ORDER, NO_ROOM = Verdict


def message(number: int, previous: int | None = None, sequence: int = X, source: UUID = ALPHA) -> bytes:
    place = sequence, number, number - 1 if previous is None else previous
    return transactional_packet(b"%d" % number, place=place, source=source)


class AcceptanceTests(SynchronousTestCase):
    def test_the_next_message_of_a_sequence(self) -> None:
        """MQQB-3.1.5.8.6-02, MQQB-3.1.1.5-01: at 3, (4, 3) and (6, 3) are next, (6, 5) and (3, 2) are not."""
        for number, previous, verdict in (
            (4, 3, ACCEPTED),
            (6, 3, ACCEPTED),
            (5, 0, ACCEPTED),
            (6, 5, OUT_OF_ORDER),
            (3, 2, DUPLICATE),
            (1, 0, DUPLICATE),
        ):
            receiver = Receiver()
            receiver.take(message(1), message(2), message(3))
            self.assertEqual(receiver.take(message(number, previous)), [verdict])

    def test_the_first_message_of_a_sequence(self) -> None:
        """MQQB-3.1.5.8.6-03: of a later one, and after 0; an earlier one has ended."""
        for sequence, number, previous, verdict in (
            (Y, 1, 0, ACCEPTED),
            (Y, 7, 0, ACCEPTED),
            (Y, 2, 1, OUT_OF_ORDER),
            (X - 1, 1, 0, DUPLICATE),
            (X - 1, 9, 3, DUPLICATE),
        ):
            receiver = Receiver()
            receiver.take(message(1), message(2))
            self.assertEqual(receiver.take(message(number, previous, sequence)), [verdict])

    def test_a_fresh_store_accepts_a_first_message(self) -> None:
        """MQQB-3.1.1.3.1-09: the first sequence is accepted from 0 on; after a restart it is known."""
        receiver = Receiver()
        self.assertEqual(receiver.take(message(2)), [OUT_OF_ORDER])
        self.assertEqual(len(receiver.streams), 0)
        self.assertEqual(receiver.take(message(1)), [ACCEPTED])
        receiver = receiver.restart()
        self.assertEqual(receiver.take(message(1)), [DUPLICATE])
        self.assertEqual(receiver.queue, [b"1"])

    def test_sequence_zero_is_one_like_others(self) -> None:
        """A peer may number with it; nothing takes it for no sequence."""
        receiver = Receiver()
        self.assertEqual(receiver.take(message(1, sequence=0), message(2, sequence=0)), [ACCEPTED] * 2)
        self.assertEqual(receiver.take(message(2, sequence=0)), [DUPLICATE])

    def test_the_largest_numbers(self) -> None:
        """The last number of a sequence, and the last sequence of all, are like others."""
        receiver = Receiver()
        last = (1 << 64) - 1
        self.assertEqual(receiver.take(message(0xFFFFFFFF, 0)), [ACCEPTED])
        self.assertEqual(receiver.take(message(1)), [DUPLICATE])
        self.assertEqual(receiver.take(message(1, sequence=1_700_000_001 << 32)), [ACCEPTED])
        self.assertEqual(receiver.take(message(0xFFFFFFFF, 0, last)), [ACCEPTED])
        self.assertEqual(receiver.restart().take(message(0xFFFFFFFF, 0, last)), [DUPLICATE])

    def test_a_whole_batch_is_judged(self) -> None:
        """Each message after those before it."""
        receiver = Receiver()
        verdicts = receiver.take(message(1), message(1), message(3), message(2), message(3), message(5))
        expected = [ACCEPTED, DUPLICATE, OUT_OF_ORDER, ACCEPTED, ACCEPTED, OUT_OF_ORDER]
        self.assertEqual(verdicts, expected)
        self.assertEqual(receiver.queue, [b"1", b"2", b"3"])

    def test_destinations_do_not_disturb_each_other(self) -> None:
        """MQQB-3.1.1.3.1-11: sequences to two queues, a later and an earlier one, interleave."""
        receiver = Receiver()
        packets = [
            transactional_packet(place=(sequence, number, number - 1), destination=f"OS:beta\\{queue}")
            for number in (1, 2, 3)
            for queue, sequence in (("a", Y), ("b", X))
        ]
        self.assertEqual(receiver.take(*packets), [ACCEPTED] * 6)

    def test_senders_do_not_disturb_each_other(self) -> None:
        """Behind a router there are many, and each begins with a sequence of its own."""
        receiver = Receiver()
        packets = [message(1, sequence=Y), message(1, source=GAMMA), message(2, sequence=Y)]
        self.assertEqual(receiver.take(*packets), [ACCEPTED] * 3)

    def test_spellings_of_a_name(self) -> None:
        """The case of a direct name, and its keyword, make no difference."""
        receiver = Receiver()
        names = ("OS:beta\\private$\\q", "os:BETA\\PRIVATE$\\Q", "DIRECT=OS:Beta\\private$\\q")
        packets = [
            transactional_packet(place=(X, number, number - 1), destination=name)
            for number, name in enumerate(names, 1)
        ]
        self.assertEqual(receiver.take(*packets), [ACCEPTED] * 3)
        self.assertEqual(len(receiver.streams), 1)

    def test_a_peer_that_spells_it_ever_differently(self) -> None:
        """The memory for different spellings of a name is limited."""
        receiver = Receiver()
        name = "abcdefghijklmn"
        for start in range(0, 12_000, 100):
            packets = [
                transactional_packet(
                    place=(X, number + 1, number),
                    destination="OS:beta\\"
                    + "".join(c.upper() if number >> n & 1 else c for n, c in enumerate(name)),
                )
                for number in range(start, start + 100)
            ]
            self.assertEqual(set(receiver.take(*packets)), {ACCEPTED})
        self.assertEqual(len(receiver.streams), 1)
        self.assertLessEqual(len(receiver.streams._spellings), 10_000)

    def test_names_beyond_ascii_stay_apart(self) -> None:
        """Characters are compared as characters, not as bytes."""
        views = [
            UserMessageView(transactional_packet(destination=f"OS:beta\\{name}"))
            for name in ("\u4142", "\u6162", "Ä", "ä")
        ]
        keys = [destination_key(view) for view in views]
        self.assertNotEqual(keys[0], keys[1])
        self.assertEqual(keys[2], keys[3])

    def test_very_long_names_are_kept_short(self) -> None:
        """They still tell destinations apart."""
        receiver = Receiver()
        packets = [
            transactional_packet(place=(X, 1, 0), destination=f"OS:beta\\{'q' * 20_000}{end}")
            for end in ("a", "b", "a")
        ]
        self.assertEqual(receiver.take(*packets), [ACCEPTED, ACCEPTED, DUPLICATE])
        self.assertLess(max(map(len, receiver.state.values())), 200)
        self.assertEqual(receiver.restart().take(*packets), [DUPLICATE] * 3)

    def test_private_names_have_queue_manager_and_number(self) -> None:
        """The same number elsewhere is another destination."""
        receiver = Receiver()
        packets = [
            transactional_packet(place=(X, 1, 0), private_number=number, queue_manager=host)
            for number, host in ((7, BETA), (8, BETA), (7, GAMMA))
        ]
        self.assertEqual(receiver.take(*packets), [ACCEPTED] * 3)

    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 3)), max_size=30))
    def test_acceptance_is_the_rule(self, places: list[tuple[int, int, int]]) -> None:
        """Against the conditions of 3.1.5.8.6 as they are written, for any messages."""
        streams = IncomingStreams(SETTINGS)
        incoming = (0, 0)
        for place in places:
            sequence, number, previous = place
            is_next = (sequence == incoming[0] and number > incoming[1] and previous <= incoming[1]) or (
                sequence > incoming[0] and previous == 0
            )
            view = UserMessageView(transactional_packet(place=place))
            (verdict,) = streams.classify([view], "TCP:10.0.0.9", START)
            self.assertEqual(verdict is ACCEPTED, is_next)
            if is_next:
                incoming = sequence, number


class RejectTests(SynchronousTestCase):
    def rejects(self, receiver: Receiver) -> int:
        (info,) = receiver.streams.infos()
        return info.reject_count

    def test_refusals_are_counted(self) -> None:
        """MQQB-3.1.5.8.6-04: a duplicate is not queued, and counts."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.take(message(1), message(3))
        self.assertEqual((self.rejects(receiver), receiver.queue), (2, [b"1"]))

    def test_the_next_message_ends_the_count(self) -> None:
        """MQQB-3.1.5.8.6-05: it begins with 0 again."""
        receiver = Receiver()
        receiver.take(message(1), message(1))
        self.assertEqual(self.rejects(receiver), 1)
        receiver.take(message(2))
        self.assertEqual(self.rejects(receiver), 0)

    def test_every_message_is_an_access(self) -> None:
        """MQQB-3.1.5.8.6-06: accepted or not, its time is noted."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.advance(7)
        receiver.take(message(1))
        (info,) = receiver.streams.infos()
        self.assertEqual(info.last_access_time, START.unix_seconds + 7)

    def test_what_management_shows(self) -> None:
        """The first sender, the destination, and the last message that is stored."""
        receiver = Receiver()
        receiver.take(message(1), message(2))
        receiver.classify(message(3))
        (info,) = receiver.streams.infos()
        self.assertEqual(
            (info.sender_identifier, info.sequence_identifier, info.sequence_number),
            (ALPHA, TxSequenceID.from_value(X), 2),
        )
        self.assertEqual(info.key, b"\x07tcp:10.0.0.5\\private$\\orders")

    def test_the_state_survives(self) -> None:
        """MQQB-3.1.1.3.1-10: number and count are there after a restart, and a duplicate is refused."""
        receiver = Receiver()
        receiver.take(*map(message, (1, 2, 3)))
        receiver.take(message(3))
        receiver = receiver.restart()
        self.assertEqual((self.rejects(receiver), receiver.take(message(3))), (1, [DUPLICATE]))
        self.assertEqual(receiver.queue, [b"1", b"2", b"3"])

    def test_refusals_alone_need_no_commit(self) -> None:
        """Their count is stored with what comes next; an accepted message has to be."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.classify(message(1))
        self.assertFalse(receiver.streams.must_store)
        receiver.classify(message(2))
        self.assertTrue(receiver.streams.must_store)


class TurnTests(SynchronousTestCase):
    def test_acceptance_runs_ahead_of_the_store(self) -> None:
        """The next batch is judged while the one before is being written, and then is written itself."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        self.assertEqual(
            receiver.classify(message(2), message(2), message(4)), [ACCEPTED, DUPLICATE, OUT_OF_ORDER]
        )
        receiver.stored()
        self.assertEqual(receiver.queue, [b"1"])
        receiver.begin()
        receiver.stored()
        self.assertEqual(receiver.queue, [b"1", b"2"])

    def test_one_commit_at_a_time(self) -> None:
        """A second one would outlive the failure of the first."""
        receiver = Receiver()
        receiver.classify(message(1))
        self.assertFalse(receiver.streams.is_storing)
        receiver.begin()
        self.assertTrue(receiver.streams.is_storing)
        self.assertRaises(LocalProtocolError, receiver.streams.take_changes)
        receiver.stored()
        self.assertRaises(LocalProtocolError, receiver.streams.stored, START)
        self.assertRaises(LocalProtocolError, receiver.streams.failed)

    def test_a_failure_takes_everything_back(self) -> None:
        """MQQB-3.1.5.8.6-07: the messages of the commit and those behind it come again, and are accepted."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.classify(message(2))
        receiver.begin()
        receiver.classify(message(3))
        receiver.failed()
        self.assertFalse(receiver.streams.must_store)
        self.assertEqual(receiver.classify(message(3), message(1)), [OUT_OF_ORDER, DUPLICATE])
        self.assertEqual(receiver.take(message(2), message(3)), [ACCEPTED] * 2)
        self.assertEqual(receiver.queue, [b"1", b"2", b"3"])

    def test_a_failure_takes_new_streams_back(self) -> None:
        """A stream without stored messages is removed after a failed commit."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        receiver.classify(message(1, source=GAMMA))
        receiver.failed()
        self.assertEqual(len(receiver.streams), 0)
        self.assertIs(receiver.streams.deadline, None)
        self.assertEqual(receiver.take(message(1), message(1, source=GAMMA)), [ACCEPTED] * 2)

    def test_a_crash_before_the_store_has_written(self) -> None:
        """MQQB-3.1.5.8.6-07: the message is accepted when it is sent again."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        receiver = receiver.restart()
        self.assertEqual(receiver.take(message(1)), [ACCEPTED])

    def test_a_crash_after_the_store_has_written(self) -> None:
        """The message and the state are there together, so it is a duplicate then."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        receiver.write()
        receiver = receiver.restart()
        self.assertEqual(receiver.take(message(1)), [DUPLICATE])
        self.assertEqual(receiver.queue, [b"1"])


class TakeBackTests(SynchronousTestCase):
    """A queue manager that is full keeps nothing of a batch, and its sender tries again."""

    def test_a_batch_is_taken_back(self) -> None:
        """Its messages are the next ones again; what was accepted before it stays."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.classify(message(2), message(3))
        receiver.streams.take_back()
        del receiver.accepted[1:]
        self.assertEqual(receiver.classify(message(3), message(2)), [OUT_OF_ORDER, ACCEPTED])
        receiver.begin()
        receiver.stored()
        self.assertEqual(receiver.queue, [b"1", b"2"])
        self.assertEqual(receiver.restart().take(message(2), message(3)), [DUPLICATE, ACCEPTED])

    def test_a_new_stream_is_taken_back(self) -> None:
        """No state of it is left to be stored."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.streams.take_back()
        self.assertEqual((len(receiver.streams), receiver.streams.must_store), (0, False))
        self.assertEqual(receiver.streams.take_changes(), [])

    def test_a_message_being_stored_stays(self) -> None:
        """The pending commit is not changed."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.begin()
        receiver.classify(message(2))
        receiver.streams.take_back()
        receiver.accepted.clear()
        self.assertFalse(receiver.streams.must_store)
        receiver.stored()
        self.assertEqual(receiver.take(message(1), message(2)), [DUPLICATE, ACCEPTED])

    def test_only_the_last_batch_is(self) -> None:
        """Twice, or after a commit has begun, it has no effect."""
        receiver = Receiver()
        receiver.classify(message(1))
        receiver.classify()
        receiver.streams.take_back()
        receiver.classify(message(2))
        receiver.begin()
        receiver.streams.take_back()
        receiver.stored()
        self.assertEqual(receiver.take(message(2)), [DUPLICATE])


class LoadTests(SynchronousTestCase):
    def state(self) -> dict[str, bytes]:
        receiver = Receiver()
        receiver.take(message(1), transactional_packet(place=(X, 1, 0), private_number=7))
        return receiver.state

    @given(st.integers(0, (1 << 64) - 1), st.integers(1, 0xFFFFFFFF))
    def test_any_position_is_restored(self, sequence: int, number: int) -> None:
        """After a restart the state is the stored one."""
        receiver = Receiver()
        receiver.take(message(number, 0, sequence))
        (info,) = receiver.restart().streams.infos()
        self.assertEqual((info.sequence_identifier.value, info.sequence_number), (sequence, number))

    def test_damage_stops_the_start(self) -> None:
        """A value that is cut short, longer, or of another version is named."""
        for name, value in self.state().items():
            spoilt = [value[:size] for size in range(len(value))] + [value + b"\0", b"\2" + value[1:]]
            for other in spoilt:
                error = self.assertRaises(StateError, IncomingStreams(SETTINGS).load, {name: other})
                self.assertEqual(error.name, name)

    def test_a_name_without_a_number_stops_the_start(self) -> None:
        """So does one that this program has not written."""
        (value, _) = self.state().values()
        for end in ("", "x", "-1", "\u0663"):
            self.assertRaises(StateError, IncomingStreams(SETTINGS).load, {PREFIX + end: value})

    def test_an_address_that_is_no_text_stops_the_start(self) -> None:
        """The last field is checked as the others are."""
        (value, _) = self.state().values()
        damaged = value.replace(b"TCP:10.0.0.9", b"\xff" * 12)
        self.assertRaises(StateError, IncomingStreams(SETTINGS).load, {f"{PREFIX}1": damaged})

    def test_other_values_are_left_alone(self) -> None:
        """The store keeps values of others, too, and new streams get new names."""
        state = self.state()
        receiver = Receiver(state={**state, "other": b"?"})
        receiver.take(message(1, source=GAMMA))
        self.assertEqual(set(receiver.state), {*state, "other", f"{PREFIX}3"})


class RefusalTests(SynchronousTestCase):
    """What a refusal stores."""

    def test_stored_once(self) -> None:
        """Its count of rejects is stored with the next batch, and not with those after it."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.classify(message(1))
        self.assertFalse(receiver.streams.must_store, "it can wait")
        for changes in (1, 0):
            receiver.begin()
            assert receiver.in_turn is not None
            self.assertEqual(len(receiver.in_turn[0]), changes)
            receiver.stored()

    def test_after_a_failed_commit(self) -> None:
        """Nothing of what was accepted since remains: there is nothing to store, and nothing to take back."""
        receiver = Receiver()
        receiver.take(message(1))
        receiver.classify(message(2))
        receiver.begin()
        receiver.classify(message(3))
        receiver.failed()
        receiver.streams.take_back()
        self.assertEqual(receiver.classify(message(1)), [DUPLICATE])
        self.assertFalse(receiver.streams.must_store)
        self.assertEqual(receiver.take(message(2), message(3)), [ACCEPTED, ACCEPTED])
