"""The stored holds on outgoing queues: on names, on next hops and on all."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutState, RemoveState
from msmq.queues import holds
from msmq.queues.holds import ALL, NAME, NEXT_HOP, HoldReason, Holds, host_text
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status

ORDERS = parse_format_name("DIRECT=OS:BETA\\private$\\orders")
ORDERS_IN_CAPITALS = parse_format_name("DIRECT=OS:BETA\\private$\\ORDERS")
BILLS = parse_format_name("DIRECT=OS:BETA\\private$\\bills")

BETA = frozenset({"beta", "192.0.2.2"})
GAMMA = frozenset({"gamma", "192.0.2.3"})
"""The names and addresses of two next hops."""


class HostTests(SynchronousTestCase):
    """L{host_text}: a next hop as an operator writes it."""

    def test_normalized(self) -> None:
        """Case, brackets, braces, blanks around it and a final dot do not matter."""
        for host, text in (
            (" BETA.example.com. ", "beta.example.com"),
            ("[2001:DB8::7]", "2001:db8::7"),
            ("{BE7A0000-0000-4000-8000-000000000002}", "be7a0000-0000-4000-8000-000000000002"),
            ("x" * 255, "x" * 255),
        ):
            self.assertEqual(host_text(host), text)

    def test_refused(self) -> None:
        """No text, more than 255 characters, and blanks within are refused; 300 characters are quoted."""
        for host in ("", "  ", "[]", ".", "x" * 256, "a b", "a\tb"):
            error = self.assertRaises(MQError, host_text, host)
            self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
            self.assertIn("is not a next hop", str(error))
        self.assertIn(f"'{'x' * 300}' is not", str(self.assertRaises(MQError, host_text, "x" * 400)))


class HoldsTests(SynchronousTestCase):
    """L{Holds}: what is paused, why, and what the store keeps of that."""

    def setUp(self) -> None:
        self.holds = Holds(is_clone=False)

    def test_none(self) -> None:
        """Nothing is paused at first."""
        self.assertFalse(self.holds)
        self.assertEqual((self.holds.names, self.holds.hosts, self.holds.is_all), ((), (), False))
        self.assertEqual(self.holds.reasons(ORDERS, [BETA]), ())

    def test_name(self) -> None:
        """A name is paused in any case, and no other name is; ending it leaves nothing."""
        self.holds.set_name(ORDERS, True)
        self.assertTrue(self.holds)
        self.assertEqual(self.holds.names, (ORDERS,))
        self.assertTrue(self.holds.holds_name(ORDERS_IN_CAPITALS))
        self.assertFalse(self.holds.holds_name(BILLS))
        self.assertEqual(self.holds.reasons(ORDERS_IN_CAPITALS, [BETA]), (HoldReason.NAME,))
        self.assertEqual(self.holds.reasons(BILLS, [BETA]), ())
        self.holds.set_name(ORDERS_IN_CAPITALS, False)
        self.holds.set_name(ORDERS, False)
        self.assertEqual((bool(self.holds), self.holds.names), (False, ()))

    def test_next_hop(self) -> None:
        """A queue is paused by its next hops only if all of them are, each under any of its names."""
        self.holds.set_host("192.0.2.2", True)
        self.assertTrue(self.holds)
        self.assertEqual(self.holds.hosts, ("192.0.2.2",))
        self.assertEqual((self.holds.holds_host(BETA), self.holds.holds_host(GAMMA)), (True, False))
        self.assertEqual(self.holds.reasons(ORDERS, [BETA]), (HoldReason.NEXT_HOP,))
        self.assertEqual(self.holds.reasons(ORDERS, [GAMMA]), ())
        self.assertEqual(self.holds.reasons(ORDERS, [BETA, GAMMA]), ())
        self.assertEqual(self.holds.reasons(ORDERS, []), (), "without a next hop none is paused")
        self.holds.set_host("gamma", True)
        self.assertEqual(self.holds.reasons(ORDERS, iter([BETA, GAMMA])), (HoldReason.NEXT_HOP,))
        for host in ("gamma", "gamma", "192.0.2.2"):
            self.holds.set_host(host, False)
        self.assertEqual((bool(self.holds), self.holds.hosts), (False, ()))

    def test_all(self) -> None:
        """All outgoing queues are paused together."""
        self.holds.set_all(True)
        self.assertTrue(self.holds)
        self.assertTrue(self.holds.is_all)
        self.assertEqual(self.holds.reasons(ORDERS, [BETA]), (HoldReason.ALL,))
        self.holds.set_all(False)
        self.assertFalse(self.holds or self.holds.is_all)

    def test_clone(self) -> None:
        """A clone holds everything until it is decided."""
        clone = Holds(is_clone=True)
        self.assertTrue(clone)
        self.assertEqual(clone.reasons(ORDERS, []), (HoldReason.CLONE,))
        clone.is_clone = False
        self.assertFalse(clone)

    def test_every_reason(self) -> None:
        """All reasons that apply are given."""
        clone = Holds(is_clone=True)
        clone.set_name(ORDERS, True)
        clone.set_host("beta", True)
        clone.set_all(True)
        self.assertEqual(clone.reasons(ORDERS, [BETA]), tuple(HoldReason))

    def test_changes(self) -> None:
        """Each hold is one value in the store; a name is removed under the key that the store has."""
        name, host = f"{NAME}{ORDERS}", f"{NEXT_HOP}beta"
        for held, kind in ((True, PutState), (False, RemoveState)):
            for change, key in (
                (self.holds.change_all(held), ALL),
                (self.holds.change_name(ORDERS, held), name),
                (self.holds.change_host("beta", held), host),
            ):
                assert isinstance(change, PutState | RemoveState)
                self.assertEqual((type(change), change.name), (kind, key))
        self.holds.set_name(ORDERS, True)
        self.assertEqual(self.holds.change_name(ORDERS_IN_CAPITALS, False), RemoveState(name))

    def test_load(self) -> None:
        """What was stored is paused again under its key; an invalid name is left out."""
        key = f"{NAME}direct=os:beta\\private$\\orders"
        odd = f"{NAME}DIRECT=OS:BETA\\private$\\with a \x7f"
        self.holds.load({key: b"1", odd: b"1", f"{NAME}no name": b"1", f"{NEXT_HOP}beta": b"1", "beta": b"1"})
        self.assertEqual((self.holds.names[1:], self.holds.hosts), ((ORDERS,), ("beta",)))
        self.assertEqual(self.holds.change_name(self.holds.names[0], False), RemoveState(odd))
        self.assertFalse(self.holds.is_all)
        self.assertEqual(self.holds.change_name(ORDERS, False), RemoveState(key))
        self.holds.load({ALL: b"1"})
        self.assertTrue(self.holds.is_all)

    def test_most(self) -> None:
        """Names and next hops are limited together; what is paused may be paused again, or resumed."""
        self.patch(holds, "MOST_HOLDS", 3)
        self.holds.set_name(ORDERS, True)
        self.holds.set_host("beta", True)
        self.holds.change_host("gamma", True)
        self.holds.change_name(BILLS, True)
        self.holds.set_host("gamma", True)
        for held in (True, False):
            self.holds.change_name(ORDERS, held)
            self.holds.change_host("beta", held)
        self.holds.change_name(BILLS, False)
        self.holds.change_host("delta", False)
        for error in (
            self.assertRaises(MQError, self.holds.change_name, BILLS, True),
            self.assertRaises(MQError, self.holds.change_host, "delta", True),
        ):
            self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
