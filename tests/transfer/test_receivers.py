"""Receivers of sequences: which peers may acknowledge messages, with a bound, over restarts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.state_records import StateError
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.receivers import (
    ANYWHERE,
    MOST_DESTINATIONS,
    MOST_RECEIVERS,
    MOST_SEQUENCES,
    PREFIX,
    Receiver,
    Receivers,
    is_introduction_due,
    may_be_acknowledged,
    receivers_of,
)
from tests.builders import ALPHA, BETA, GAMMA, user_packet

ORDERS = "direct=tcp:10.0.0.1\\private$\\orders"


@attrs.frozen
class Redirects:
    """Names that an operator has redirected."""

    folded: Iterable[tuple[str, str]] = ()


class ReceiversTests(SynchronousTestCase):
    """The queue managers that got messages, over a restart."""

    def stored(self, receivers: Receivers, *introduced: tuple[str, Receiver]) -> dict[str, bytes]:
        """The stored values after these have been introduced."""
        state: dict[str, bytes] = {}
        for name, value in (change for to, who in introduced for change in receivers.introduce(to, [who])):
            if value is None:
                del state[name]
            else:
                state[name] = value
        return state

    def test_destinations_have_an_end(self) -> None:
        """The least recently used destinations are removed, in the store as well."""
        receivers = Receivers(Redirects(), trusts=False)
        here = Receiver(BETA, "10.0.0.1")
        names = [f"{ORDERS}{number}" for number in range(MOST_DESTINATIONS + 10)]
        state = self.stored(receivers, *((name, here) for name in names))
        self.assertEqual(len(state), MOST_DESTINATIONS)
        again = Receivers(Redirects(), trusts=False)
        self.assertEqual(again.load(state, ()), [])
        self.assertEqual([again.is_known(name, [here]) for name in (names[9], names[10])], [False, True])

    def test_receivers_of_one_have_an_end(self) -> None:
        """Sixteen replaced each other at one address; the first is forgotten for the next."""
        receivers = Receivers(Redirects(), trusts=False)
        known = [Receiver(UUID(int=number + 1), "10.0.0.1") for number in range(MOST_RECEIVERS + 1)]
        state = self.stored(receivers, *((ORDERS, receiver) for receiver in known))
        self.assertEqual(len(state), 1)
        again = Receivers(Redirects(), trusts=False)
        again.load(state, ())
        self.assertEqual([again.is_known(ORDERS, [receiver]) for receiver in known[:2]], [False, True])

    def test_acknowledged_by_its_receiver(self) -> None:
        """The queue manager that got it, at the address where it got it."""
        receivers = Receivers(Redirects(), trusts=False)
        receivers.sent(7, Receiver(BETA, "10.0.0.1"))
        for peer, expected in (
            (Receiver(BETA, "10.0.0.1"), True),
            (Receiver(BETA, "10.0.0.2"), False),
            (Receiver(GAMMA, "10.0.0.1"), False),
        ):
            self.assertIs(receivers.may_acknowledge(7, None, peer), expected)
            self.assertIs(receivers.may_acknowledge(8, None, peer), False)
        trusting = Receivers(Redirects(), trusts=True)
        trusting.sent(7, Receiver(BETA, "10.0.0.1"))
        self.assertTrue(trusting.may_acknowledge(7, None, Receiver(BETA, "10.0.0.2")))

    def test_a_sequence_is_kept_as_long_as_it_is_waited_for(self) -> None:
        """Its receivers are stored once, and removed with what is stored for another."""
        receivers = Receivers(Redirects(), trusts=False)
        for sequence in (7, 8):
            receivers.sent(sequence, Receiver(BETA, "10.0.0.1"))
        [(name, value)] = receivers.arrived([7, 7], {7})
        self.assertEqual(receivers.arrived([7], {7}), [])
        changes = receivers.arrived([8], {8})
        self.assertIn((name, None), changes)
        self.assertEqual(len(changes), 2)
        assert value is not None
        again = Receivers(Redirects(), trusts=False)
        self.assertEqual(again.load({name: value}, {7}), [])
        self.assertTrue(again.may_acknowledge(7, None, Receiver(BETA, "10.0.0.1")))
        self.assertEqual(Receivers(Redirects(), trusts=False).load({name: value}, ()), [(name, None)])

    def test_a_sequence_of_an_earlier_process(self) -> None:
        """Its receivers are not stored again, and are removed when none of its messages waits."""
        receivers = Receivers(Redirects(), trusts=False)
        receivers.sent(7, Receiver(BETA, "10.0.0.1"))
        [(name, value)] = receivers.arrived([7], {7})
        assert value is not None
        again = Receivers(Redirects(), trusts=False)
        again.load({name: value}, {7})
        self.assertEqual(again.arrived([7], {7}), [])
        again.sent(8, Receiver(BETA, "10.0.0.1"))
        self.assertEqual(again.arrived([8], {8})[1:], [(name, None)])

    def test_a_sequence_that_gets_another_receiver(self) -> None:
        """All its receivers are stored, also those to which messages were sent after the first had come."""
        receivers = Receivers(Redirects(), trusts=False)
        former, present = (Receiver(BETA, f"10.0.0.{number}") for number in (1, 2))
        receivers.sent(7, former)
        [(name, first)] = receivers.arrived([7], {7})
        receivers.sent(7, present)
        [(again, second)] = receivers.arrived([7], {7})
        self.assertEqual(again, name)
        receivers.sent(7, former)
        self.assertEqual(receivers.arrived([7], {7}), [])
        for value, expected in ((first, [True, False]), (second, [True, True])):
            assert value is not None
            restored = Receivers(Redirects(), trusts=False)
            restored.load({name: value}, {7})
            self.assertEqual(
                [restored.may_acknowledge(7, None, each) for each in (former, present)], expected
            )

    def test_another_queue_manager(self) -> None:
        """Another identifier is that of another one, another address is not."""
        receivers = Receivers(Redirects(), trusts=False)
        there, moved, other = (
            Receiver(BETA, "10.0.0.1"),
            Receiver(BETA, "10.0.0.2"),
            Receiver(GAMMA, "10.0.0.1"),
        )
        self.assertFalse(receivers.are_others(7, [other]))
        receivers.sent(7, there)
        for candidates, expected in (
            ([], False),
            ([there], False),
            ([moved, there], False),
            ([other], True),
            ([there, other], True),
        ):
            self.assertIs(receivers.are_others(7, candidates), expected)
        receivers.sent(7, other)
        self.assertFalse(receivers.are_others(7, [other]))

    def test_sequences_have_an_end(self) -> None:
        """As many as the limit are known; one more has the one forgotten to which nothing was sent since."""
        receivers = Receivers(Redirects(), trusts=False)
        there = Receiver(BETA, "10.0.0.1")
        for sequence in (*range(MOST_SEQUENCES), 0):
            receivers.sent(sequence, there)
        self.assertTrue(all(receivers.is_recorded(sequence) for sequence in range(MOST_SEQUENCES)))
        receivers.sent(MOST_SEQUENCES, there)
        known = [receivers.is_recorded(sequence) for sequence in (0, 1, 2, MOST_SEQUENCES)]
        self.assertEqual(known, [True, False, True, True])

    def test_many_sequences_that_are_not_waited_for_any_more(self) -> None:
        """They are removed in slices, while others come, and those with waiting messages stay."""
        receivers = Receivers(Redirects(), trusts=False)
        state: dict[str, bytes | None] = {}

        def arrive(sequences: range, awaited: set[int]) -> int:
            for sequence in sequences:
                receivers.sent(sequence, Receiver(BETA, "10.0.0.1"))
            changes = receivers.arrived(sequences, awaited)
            state.update(changes)
            return len(changes)

        first = range(1, 201)
        self.assertEqual(arrive(first, set(first)), 200)
        stays = {1, 100}
        for number in range(1000, 1020):
            self.assertLess(arrive(range(number, number + 1), stays | {number}), 20)
        kept = {int(name.rpartition("/")[2]) for name, value in state.items() if value is not None}
        self.assertEqual(kept - set(range(1000, 1020)), stays)

    def test_receivers_without_an_address(self) -> None:
        """For names other than direct ones the queue manager is known without an address, also after a
        restart.
        """
        receivers = Receivers(Redirects(), trusts=False)
        receivers.sent(7, Receiver(BETA, ANYWHERE))
        receivers.sent(8, Receiver(BETA, "10.0.0.1"))
        self.assertEqual((receivers.named(7), receivers.named(8)), (frozenset([BETA]), frozenset()))
        [(name, value)] = receivers.arrived([7], {7})
        assert value is not None
        again = Receivers(Redirects(), trusts=False)
        again.load({name: value}, {7})
        self.assertEqual(again.named(7), frozenset([BETA]))

    def test_damage_is_an_error(self) -> None:
        """Going on without it would accept acknowledgements of any peer."""
        state = self.stored(Receivers(Redirects(), trusts=False), (ORDERS, Receiver(BETA, "10.0.0.1")))
        [(name, value)] = state.items()
        for damaged in (b"", b"\xff" + value[1:], value[:-1], value + b"\0"):
            with self.assertRaises(StateError):
                Receivers(Redirects(), trusts=False).load({name: damaged}, ())

    def test_redirected_receivers(self) -> None:
        """After a redirect the receiver of a name may acknowledge at the new address, and no other may."""
        receivers = Receivers(Redirects([(ORDERS, "10.0.0.7")]), trusts=False)
        self.stored(receivers, (ORDERS, Receiver(BETA, "10.0.0.1")), (ORDERS, Receiver(BETA, "10.0.0.9")))
        receivers.sent(7, Receiver(BETA, "10.0.0.1"))
        for peer, expected in (
            (Receiver(BETA, "10.0.0.9"), True),
            (Receiver(GAMMA, "10.0.0.9"), False),
            (Receiver(BETA, "::ffff:10.0.0.7"), True),
            (Receiver(GAMMA, "10.0.0.7"), False),
            (Receiver(BETA, "10.0.0.8"), False),
        ):
            self.assertIs(receivers.may_acknowledge(7, None, peer), expected)


class ReceiversOfTests(SynchronousTestCase):
    """The receivers that are recorded when messages of a sequence leave."""

    def test_by_name(self) -> None:
        """A direct name: the peer, at its address and at that in the name; any other: the queue manager."""
        peer = Receiver(BETA, "10.0.0.2")
        for name, address, expected in (
            ("DIRECT=TCP:10.0.0.2\\private$\\a", None, (peer,)),
            ("DIRECT=TCP:10.0.0.1\\private$\\a", None, (peer, Receiver(BETA, "10.0.0.1"))),
            ("DIRECT=OS:beta\\private$\\a", None, (peer,)),
            (f"PRIVATE={GAMMA}\\00000007", None, [Receiver(GAMMA, ANYWHERE)]),
            (f"PUBLIC={ALPHA}", GAMMA, [Receiver(GAMMA, ANYWHERE)]),
            (f"PUBLIC={ALPHA}", None, []),
        ):
            known: dict[str, Any] = {} if address is None else {"queue_manager": address, "private_number": 1}
            views = [UserMessageView(user_packet(b"x", **known)), None]
            with self.subTest(name=name):
                self.assertEqual(receivers_of(parse_format_name(name), peer, views), expected)
        direct = parse_format_name("DIRECT=TCP:10.0.0.1\\private$\\a")
        self.assertEqual(receivers_of(direct, None, []), ())


class IntroductionTests(SynchronousTestCase):
    """Sent messages, and accepted acknowledgements, before and after a receiver is stored (reading 54)."""

    def setUp(self) -> None:
        self.peer = Receiver(BETA, "10.0.0.1")
        self.records = Receivers(Redirects(), trusts=False)
        self.direct = parse_format_name(ORDERS)
        self.private = parse_format_name(f"PRIVATE={BETA}\\00000007")

    def test_waiting_callers(self) -> None:
        """Only messages for a direct name wait, and only for a receiver that is not stored."""
        known = Receivers(Redirects(), trusts=False)
        known.introduce(ORDERS, (self.peer,))
        elsewhere = Receiver(GAMMA, "10.0.0.1")
        for name, peer, records, expected in (
            (self.direct, self.peer, self.records, True),
            (self.private, self.peer, self.records, False),
            (self.direct, self.peer, known, False),
            (self.direct, elsewhere, known, True),
            (self.direct, None, self.records, False),
        ):
            self.assertIs(is_introduction_due(name, peer, records), expected)

    def test_what_may_be_acknowledged(self) -> None:
        """A message for a direct name only once a receiver is stored; none of an empty queue."""
        known = Receivers(Redirects(), trusts=False)
        known.introduce(ORDERS, (self.peer,))
        for name, records, has_messages, expected in (
            (self.direct, self.records, True, False),
            (self.direct, known, True, True),
            (self.direct, known, False, False),
            (self.private, self.records, True, True),
            (self.private, self.records, False, False),
        ):
            self.assertIs(may_be_acknowledged(name, records, has_messages=has_messages), expected)


class ChangeTests(SynchronousTestCase):
    """Receivers that are introduced again, or were not stored."""

    def test_names_are_not_used_twice(self) -> None:
        """A value of a new process does not overwrite an old one, and a known destination keeps its value."""
        here = Receiver(BETA, "10.0.0.1")
        receivers = Receivers(Redirects(), trusts=False)
        state = dict(change for name in "ab" for change in receivers.introduce(name, [here]))
        self.assertEqual(len(state), 2)
        again = Receivers(Redirects(), trusts=False)
        again.load({name: value for name, value in state.items() if value is not None}, ())
        [(new, _)] = again.introduce("c", [here])
        self.assertEqual([*state, new], [f"{PREFIX}{number}" for number in (1, 2, 3)])
        [(known, _)] = again.introduce("b", [here])
        self.assertIn(known, state)
        [(newer, _)] = again.introduce("d", [here])
        self.assertEqual(newer, f"{PREFIX}4")

    def test_a_receiver_that_comes_again_is_remembered(self) -> None:
        """It counts as the latest, so that another one is forgotten first."""
        receivers = Receivers(Redirects(), trusts=False)
        known = [Receiver(UUID(int=number + 1), "10.0.0.1") for number in range(MOST_RECEIVERS + 1)]
        for receiver in (*known[:-1], known[0], known[-1]):
            receivers.introduce(ORDERS, [receiver])
        self.assertEqual([receivers.is_known(ORDERS, [each]) for each in known[:3]], [True, False, True])

    def test_withdrawn(self) -> None:
        """It is no receiver; others of the destination, and of another one, stay."""
        receivers = Receivers(Redirects(), trusts=False)
        here, there = Receiver(BETA, "10.0.0.1"), Receiver(GAMMA, "10.0.0.1")
        receivers.introduce(ORDERS, [here, there])
        receivers.withdraw(ORDERS, [here])
        receivers.withdraw("direct=os:other\\private$\\orders", [there])
        self.assertEqual([receivers.is_known(ORDERS, [each]) for each in (here, there)], [False, True])
        self.assertTrue(receivers.has_any(ORDERS))
        self.assertFalse(receivers.has_any("direct=os:other\\private$\\orders"))

    def test_withdrawn_at_one_address(self) -> None:
        """A receiver that was stored at one of its addresses stays a receiver there when storing the other
        one fails.
        """
        receivers = Receivers(Redirects(), trusts=False)
        here, named = Receiver(BETA, "10.0.0.1"), Receiver(BETA, "10.0.0.2")
        receivers.introduce(ORDERS, [here])
        unknown = receivers.unknown(ORDERS, [here, named])
        receivers.introduce(ORDERS, [here, named])
        receivers.withdraw(ORDERS, unknown)
        self.assertEqual([receivers.is_known(ORDERS, [each]) for each in (here, named)], [True, False])
