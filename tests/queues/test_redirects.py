"""The stored addresses to which outgoing queues are redirected."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutState, RemoveState
from msmq.queues import redirects
from msmq.queues.redirects import REDIRECT, Redirects, check_redirected, redirect_address
from msmq.structures.names.direct_format_name import DirectProtocol
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError, Status

ORDERS = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\orders")
ORDERS_IN_CAPITALS = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\ORDERS")
BILLS = parse_format_name("DIRECT=OS:BETA\\private$\\bills")


class AddressTests(SynchronousTestCase):
    """L{redirect_address}: what an operator may give as an address."""

    def test_addresses(self) -> None:
        """An IP address, with or without brackets, is dialled as TCP, any other name as a computer's."""
        for text, protocol, address in (
            ("192.0.2.7", DirectProtocol.TCP, "192.0.2.7"),
            ("  192.0.2.7\n", DirectProtocol.TCP, "192.0.2.7"),
            ("[2001:db8::7]", DirectProtocol.TCP, "2001:db8::7"),
            ("2001:db8::7", DirectProtocol.TCP, "2001:db8::7"),
            ("gamma", DirectProtocol.OS, "gamma"),
            ("gamma.example.com.", DirectProtocol.OS, "gamma.example.com"),
        ):
            with self.subTest(text=text):
                name = redirect_address(text)
                self.assertEqual((name.protocol, name.address), (protocol, address))

    def test_what_is_no_address(self) -> None:
        """A port, a URL, a path or nothing at all is refused, and the text is quoted on one line."""
        for text in ("", " ", "192.0.2.7:1801", "gamma:1801", "//gamma", "gamma/x", "gamma\\x", "a\nb"):
            with self.subTest(text=text):
                error = self.assertRaises(MQError, redirect_address, text)
                self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
                self.assertIn(f"{' '.join(text.split())} is not an address", str(error))
        long = self.assertRaises(MQError, redirect_address, "x:" * 200)
        self.assertIn(f"{'x:' * 150} is not an address", str(long))
        self.assertNotIn("x:" * 151, str(long))

    def test_impossible_addresses(self) -> None:
        """A mistyped IPv4 address is not taken for a computer name; nor is an address of no one computer."""
        for text in ("300.1.1.1", "999.9.9.9.", "192.0.2", "0.0.0.0", "[::]", "224.0.0.1", "255.255.255.255"):
            with self.subTest(text=text):
                error = self.assertRaises(MQError, redirect_address, text)
                self.assertEqual(error.status, Status.MQ_ERROR_INVALID_PARAMETER)
                self.assertIn(f"{text} is not an address", str(error))
        for text in ("2008", "gamma.example.4com", "10gamma"):
            self.assertEqual(redirect_address(text).protocol, DirectProtocol.OS)

    def test_names_that_can_be_redirected(self) -> None:
        """Only names with an address or a computer name, DIRECT=TCP: and DIRECT=OS:, can be redirected."""
        for name in (ORDERS, BILLS):
            self.assertIs(check_redirected(name), name)
        for text in (
            "DIRECT=HTTP://beta/msmq/private$/orders",
            "PRIVATE=be7a0000-0000-4000-8000-000000000002\\00000010",
        ):
            error = self.assertRaises(MQError, check_redirected, parse_format_name(text))
            self.assertEqual(error.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)


class RedirectsTests(SynchronousTestCase):
    """L{Redirects}: which names are redirected, and what the store keeps of that."""

    def setUp(self) -> None:
        self.redirects = Redirects()

    def test_set(self) -> None:
        """A redirected name is dialled at its new address, in whatever case it is written."""
        self.redirects.set(ORDERS, "192.0.2.7")
        self.assertEqual(self.redirects.names, (ORDERS,))
        for name in (ORDERS, ORDERS_IN_CAPITALS):
            self.assertEqual(self.redirects.host(name), "192.0.2.7")
            self.assertEqual(self.redirects.dialled(check_redirected(name)), "192.0.2.7")
        self.assertEqual(
            list(self.redirects.folded), [("direct=tcp:127.0.0.3\\private$\\orders", "192.0.2.7")]
        )
        self.redirects.set(ORDERS_IN_CAPITALS, "192.0.2.8")
        self.assertEqual((self.redirects.names, self.redirects.host(ORDERS)), ((ORDERS,), "192.0.2.8"))
        self.assertIsNone(self.redirects.host(BILLS))
        self.assertEqual(self.redirects.dialled(check_redirected(BILLS)), "BETA")

    def test_ended(self) -> None:
        """When a redirect ends, nothing of it is left; to end none changes nothing."""
        self.redirects.set(ORDERS, "192.0.2.7")
        for name in (BILLS, ORDERS_IN_CAPITALS, ORDERS):
            self.redirects.set(name, None)
        self.assertEqual((self.redirects.names, list(self.redirects.folded)), ((), []))
        self.assertIsNone(self.redirects.host(ORDERS))
        self.assertEqual(
            self.redirects.change(ORDERS_IN_CAPITALS, "gamma"),
            PutState(f"{REDIRECT}{ORDERS_IN_CAPITALS}", b"gamma"),
            "the key of the ended redirect is forgotten",
        )

    def test_changes(self) -> None:
        """A change stores the address under the name, and removes it under the name that was stored."""
        key = f"{REDIRECT}{ORDERS}"
        self.assertEqual(self.redirects.change(ORDERS, "gamma"), PutState(key, b"gamma"))
        self.redirects.set(ORDERS, "gamma")
        self.assertEqual(self.redirects.change(ORDERS_IN_CAPITALS, "delta"), PutState(key, b"delta"))
        self.assertEqual(self.redirects.change(ORDERS_IN_CAPITALS, None), RemoveState(key))

    def test_most(self) -> None:
        """At the limit no further name is redirected; one that is may still get another address."""
        self.patch(redirects, "MOST_REDIRECTS", 2)
        self.redirects.set(BILLS, "gamma")
        self.redirects.change(ORDERS, "gamma")
        self.redirects.set(ORDERS, "gamma")
        third = parse_format_name("DIRECT=OS:BETA\\private$\\third")
        error = self.assertRaises(MQError, self.redirects.change, third, "gamma")
        self.assertEqual(error.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertIsInstance(self.redirects.change(ORDERS, "delta"), PutState)
        self.assertIsInstance(self.redirects.change(third, None), RemoveState)

    def test_load(self) -> None:
        """What was stored is restored under the key that the store has; what is invalid is left out."""
        key = f"{REDIRECT}direct=tcp:127.0.0.3\\private$\\ORDERS"
        odd = f"{REDIRECT}DIRECT=OS:BETA\\private$\\with a \x7f"
        self.redirects.load(
            {
                key: b"192.0.2.7",
                odd: b"delta",
                f"{REDIRECT}DIRECT=OS:A\\private$\\q": b"\xff",
                f"{REDIRECT}DIRECT=OS:B\\private$\\q": b"gamma:1801",
                f"{REDIRECT}no name": b"gamma",
                f"{REDIRECT}{BILLS}": b"gamma",
                f"outgoing.other.{BILLS}": b"delta",
            }
        )
        [other] = set(self.redirects.names) - {ORDERS, BILLS}
        self.assertEqual(self.redirects.change(other, None), RemoveState(odd))
        self.assertEqual((self.redirects.host(ORDERS), self.redirects.host(BILLS)), ("192.0.2.7", "gamma"))
        self.assertEqual(self.redirects.change(ORDERS, None), RemoveState(key))
