"""Every rule about next hops and the sessions of acknowledgements, as a table. [MS-MQQB] 3.1.7.4."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.names.format_name import parse_format_name
from msmq.transfer.decisions.next_hop_decision import (
    REPORTED_AFTER,
    CarriedFacts,
    MovedSenderFacts,
    NextHopChoice,
    carrier_of,
    dialled_hop,
    is_carried,
    is_moved_sender,
    is_wait_reported,
    routed_hop,
)
from tests.builders import ALPHA, BETA, GAMMA

NAME = parse_format_name(f"PRIVATE={BETA}\\00000007")


@attrs.frozen
class Hop:
    """A queue manager that routing names."""

    identifier: UUID


class NextHopTests(SynchronousTestCase):
    """The next hop of an outgoing queue."""

    def test_direct_names(self) -> None:
        """All names of one host share a next hop, however it is written; it is dialled as it is written."""
        for host, key in (("10.0.0.1", "10.0.0.1"), ("Beta.Example.", "beta.example"), ("BETA", "beta")):
            expected: NextHopChoice[Hop] = NextHopChoice(key, host, ())
            self.assertEqual(dialled_hop(host), expected)

    def test_other_names(self) -> None:
        """A line for each case: owner unknown, no route, routes, and routes of which some are paused."""
        alpha, gamma = Hop(ALPHA), Hop(GAMMA)
        for owner, hops, paused, expected in (
            (None, [], (), NextHopChoice(str(NAME))),
            (BETA, [], (), NextHopChoice(BETA)),
            (BETA, [alpha], (), NextHopChoice((ALPHA,), None, (alpha,))),
            (BETA, [alpha, gamma], (), NextHopChoice((ALPHA, GAMMA), None, (alpha, gamma))),
            (BETA, [alpha, gamma], (alpha,), NextHopChoice((GAMMA,), None, (gamma,))),
            (BETA, [alpha, gamma], (alpha, gamma), NextHopChoice((ALPHA, GAMMA), None, (alpha, gamma))),
        ):
            with self.subTest(owner=owner, hops=hops, paused=paused):
                self.assertEqual(routed_hop(NAME, owner, hops, paused.__contains__), expected)


class MovedSenderTests(SynchronousTestCase):
    """L{is_moved_sender}: whether a session at another address leads to a sender."""

    def test_each_outcome(self) -> None:
        """Reading 60: the directory confirms it; or the configuration, where the directory has no address."""
        configured: dict[str, Any] = {"is_unanswered": True, "is_trusted": True}
        listed: dict[str, Any] = {"is_listed": True}
        for facts, expected in (
            ({}, False),
            (configured, True),
            ({**configured, "is_trusted": False}, False),
            ({**configured, "is_unanswered": False}, False),
            ({**configured, "is_stated": False}, False),
            ({**listed, "is_dialled": True}, True),
            ({**listed, "is_dialled": True, "is_named": False}, True),
            ({**listed, "is_dialled": True, "is_stated": False}, False),
            ({**listed, "is_named": True}, True),
            ({**listed, "is_named": False, **configured}, False),
            ({**listed, **configured}, True),
            (listed, False),
            ({"is_dialled": True, "is_named": True}, False),
        ):
            known: dict[str, Any] = {
                "is_stated": True,
                "is_listed": False,
                "is_dialled": False,
                "is_named": None,
                "is_unanswered": False,
                "is_trusted": False,
                **facts,
            }
            with self.subTest(facts=facts):
                self.assertIs(is_moved_sender(MovedSenderFacts(**known)), expected)


@attrs.frozen
class Sessions:
    """The open sessions of a test, by what they are to the acknowledgement; C{there} has an address."""

    open: tuple[str, ...]

    def _open(self, name: str) -> str | None:
        return name if name in self.open else None

    def at_address(self, addressee: UUID, address: str) -> str | None:
        return self._open("there")

    def moved(self, addressee: UUID) -> str | None:
        return self._open("moved")

    def of_addressee(self, addressee: UUID) -> str | None:
        return self._open("addressee")

    def of_router(self, addressee: UUID) -> str | None:
        return self._open("router")

    def dialled(self) -> str | None:
        return self._open("dialled")

    def of_next_hop(self) -> str | None:
        return self._open("next hop")


class CarrierTests(SynchronousTestCase):
    """L{carrier_of} and L{is_carried}: on which session an acknowledgement leaves."""

    def test_each_session(self) -> None:
        """A line for each kind of name and of trust: the sessions in the order in which they are taken."""
        every = ("there", "moved", "addressee", "router", "dialled", "next hop")
        for addressee, address, is_for_host, trusts, expected in (
            (ALPHA, "10.0.0.1", True, False, ["there", "moved", "dialled"]),
            (ALPHA, "10.0.0.1", True, True, ["there", "addressee", "router", "next hop"]),
            (ALPHA, None, False, False, ["addressee", "router", "next hop"]),
            (None, "10.0.0.1", True, False, ["dialled"]),
            (None, "10.0.0.1", True, True, ["next hop"]),
            (None, None, False, False, ["next hop"]),
        ):
            found = []
            sessions = Sessions(every)
            while True:
                carrier = carrier_of(addressee, address, sessions, is_for_host=is_for_host, trusts=trusts)
                if carrier is None:
                    break
                found.append(carrier)
                sessions = Sessions(tuple(each for each in sessions.open if each != carrier))
            with self.subTest(addressee=addressee, address=address, trusts=trusts):
                self.assertEqual(found, expected)

    def test_carried(self) -> None:
        """A session carries what is for its peer or comes from behind it, at the address of the name."""
        for facts, is_moved, expected in (
            ({}, False, True),
            ({"peer": GAMMA, "router": GAMMA}, False, True),
            ({"peer": GAMMA}, True, False),
            ({"peer": None}, True, False),
            ({"peer": None, "router": None}, True, False),
            ({"addressee": None, "peer": None}, True, False),
            ({"addressee": None, "peer": GAMMA, "router": GAMMA}, True, False),
            ({"address": None}, False, True),
            ({"peer_address": "10.0.0.9"}, False, False),
            ({"peer_address": "10.0.0.9"}, True, True),
            ({"peer_address": "10.0.0.9", "trusts": True}, False, True),
        ):
            known: dict[str, Any] = {
                "addressee": ALPHA,
                "router": None,
                "address": "10.0.0.1",
                "peer": ALPHA,
                "peer_address": "10.0.0.1",
                "trusts": False,
                **facts,
            }

            def moved(answer: bool = is_moved) -> bool:
                return answer

            with self.subTest(facts=facts, is_moved=is_moved):
                self.assertIs(is_carried(CarriedFacts(**known), moved), expected)


class ReportTests(SynchronousTestCase):
    """L{is_wait_reported}: acknowledgements wait for an address that does not answer."""

    def test_each_outcome(self) -> None:
        """Reading 60: a line for each reason to report it, and not to."""
        one, both = frozenset({ALPHA}), frozenset({ALPHA, BETA})
        none: frozenset[UUID] = frozenset()
        for unanswered_for, waiting, reported, expected in (
            (None, one, none, False),
            (REPORTED_AFTER - 1, one, none, False),
            (REPORTED_AFTER, one, none, True),
            (REPORTED_AFTER, one, one, False),
            (REPORTED_AFTER, one, both, False),
            (REPORTED_AFTER, both, one, True),
            (REPORTED_AFTER, none, none, False),
        ):
            with self.subTest(unanswered_for=unanswered_for, waiting=waiting, reported=reported):
                self.assertIs(is_wait_reported(unanswered_for, waiting, reported), expected)
