"""LDAP messages as bytes."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from ldaptor.protocols import pureldap
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.transport.filters import Equal, Present, of_class
from msmq.directory.ldap.transport.wire import (
    Bind,
    Entry,
    LdapWireError,
    Result,
    Scope,
    SearchRequest,
    decode,
    encode,
    paged,
    whole_message,
)

GUID = UUID("f00dface-8081-82ff-9c5c-2a28295c0000")


class EncodingTests(SynchronousTestCase):
    """What goes to a server."""

    def test_binary_filter(self) -> None:
        """The sixteen bytes of a GUID go out as they are, whichever they are."""
        wanted = of_class("mSMQQueue", Equal("objectGUID", GUID.bytes_le))
        message = encode(7, SearchRequest("DC=example", Scope.TREE, wanted))
        self.assertIn(b"objectGUID\x04\x10" + GUID.bytes_le, message)

    def test_filter_for_people(self) -> None:
        """A filter is written as RFC 4515 has it."""
        wanted = of_class("site", Equal("cn", "a*(ü)".encode()), Present("mSMQInterval1"))
        self.assertEqual(str(wanted), "(&(objectClass=site)(cn=a\\2a\\28\\c3\\bc\\29)(mSMQInterval1=*))")

    def test_password_is_not_shown(self) -> None:
        """Whoever prints a request sees no password."""
        self.assertNotIn("hunter2", repr(Bind("cn=admin", b"hunter2")))
        self.assertIn(b"hunter2", encode(1, Bind("cn=admin", b"hunter2")))


class DecodingTests(SynchronousTestCase):
    """What comes from a server."""

    def message(self, operation: object, controls: object = None) -> bytes:
        return bytes(pureldap.LDAPMessage(operation, controls=controls, id=5).toWire())

    def test_entry(self) -> None:
        """An entry has its values by names without case, and binary ones unchanged."""
        attributes = [("objectGUID", [GUID.bytes_le]), ("mSMQSites", [b"\x80", b"\xff"]), ("empty", [])]
        data = self.message(pureldap.LDAPSearchResultEntry("CN=x", attributes))
        number, entry = decode(data)
        assert isinstance(entry, Entry)
        self.assertEqual((number, entry.name), (5, "CN=x"))
        self.assertEqual(entry.first("OBJECTguid"), GUID.bytes_le)
        self.assertEqual(set(entry.all("msmqsites")), {b"\x80", b"\xff"})
        self.assertIsNone(entry.first("empty"))

    def test_result(self) -> None:
        """A result has its code, what the server says, and where the next page begins."""
        page = paged(0, b"\x00\xffcookie")
        done = pureldap.LDAPSearchResultDone(resultCode=32, errorMessage=b"no such thing\0")
        data = self.message(done, [(page.kind, None, page.value)])
        self.assertEqual(decode(data), (5, Result(32, "no such thing", b"\x00\xffcookie")))

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        """Whatever a server sends is a message, or is refused, and nothing else happens."""
        whole = b"\x30" + bytes([len(data)]) + data
        self.assertEqual(whole_message(whole, 0), len(whole))
        try:
            decode(whole)
        except LdapWireError as error:
            self.assertTrue(str(error))

    def test_part(self) -> None:
        """A message that has not arrived whole is waited for."""
        data = self.message(pureldap.LDAPSearchResultEntry("CN=x", [("a", [b"b" * 300])]))
        for end in range(len(data)):
            self.assertIsNone(whole_message(data[:end], 0))
        self.assertEqual(whole_message(data + b"0", 0), len(data))

    def test_no_message(self) -> None:
        """What begins no message, or one without bounds, is refused at once."""
        for data in (
            b"HTTP/1.1",
            b"\x30\x80\x00",
            b"\x30\x85\x01\x01\x01\x01\x01",
            b"\x30\x84\xff\xff\xff\xff",
        ):
            self.assertRaises(LdapWireError, whole_message, data, 0)
