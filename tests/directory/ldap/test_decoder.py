"""The messages of an LDAP server, decoded."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from ldaptor.protocols import pureber, pureldap
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.transport import decoder
from msmq.directory.ldap.transport.decoder import (
    LONGEST_TEXT,
    PARTS_AT_ONCE,
    LdapTooLongError,
    decode,
    decoding,
    message_length,
    message_number,
    too_long,
)
from msmq.directory.ldap.transport.wire import Entry, LdapWireError, Result, SearchReference, paged
from tests.directory.ldap.encoding import element, group

GUID = UUID("f00dface-8081-82ff-9c5c-2a28295c0000")


def message(operation: object, controls: object = None) -> bytes:
    """As ldaptor writes it."""
    return bytes(pureldap.LDAPMessage(operation, controls=controls, id=5).toWire())


class DecoderTests(SynchronousTestCase):
    """Decoding of messages from a server."""

    def test_entry(self) -> None:
        """An entry has its values by names without case, and binary ones unchanged."""
        attributes = [("objectGUID", [GUID.bytes_le]), ("mSMQSites", [b"\x80", b"\xff"]), ("empty", [])]
        number, entry = decode(message(pureldap.LDAPSearchResultEntry("CN=x", attributes)))
        assert isinstance(entry, Entry)
        self.assertEqual((number, entry.name), (5, "CN=x"))
        self.assertEqual(entry.first("OBJECTguid"), GUID.bytes_le)
        self.assertEqual(set(entry.all("msmqsites")), {b"\x80", b"\xff"})
        self.assertIsNone(entry.first("empty"))

    @given(
        st.dictionaries(
            st.text(st.characters(max_codepoint=0x7F, categories=["Ll", "Nd"]), min_size=1),
            st.lists(st.binary(max_size=300), min_size=1, max_size=4),
            max_size=4,
        )
    )
    def test_any_entry(self, held: dict[str, list[bytes]]) -> None:
        """An entry is what another implementation has written."""
        _, entry = decode(message(pureldap.LDAPSearchResultEntry("CN=x", list(held.items()))))
        assert isinstance(entry, Entry)
        self.assertEqual(entry.values, {name: tuple(values) for name, values in held.items()})

    def test_lengths_in_four_bytes(self) -> None:
        """Active Directory writes the length of each element in four bytes."""
        self.assertEqual(decode(group(3, digits=4)), decode(group(3)))
        self.assertEqual(message_length(group(3, digits=4), 0), len(group(3, digits=4)))

    def test_result(self) -> None:
        """A result has its code, what the server says, and where the next page begins."""
        page = paged(0, b"\x00\xffcookie")
        done = pureldap.LDAPSearchResultDone(resultCode=32, errorMessage=b"no such thing\0")
        data = message(done, [(page.kind, None, page.value)])
        self.assertEqual(decode(data), (5, Result(32, "no such thing", b"\x00\xffcookie")))
        critical = element(0x30, element(4, page.kind) + element(1, b"\xff") + element(4, page.value or b""))
        other = element(0x30, element(4, b"1.2.3"))
        data = element(0x30, message(done)[2:] + element(0xA0, other + critical))
        self.assertEqual(decode(data)[1], Result(32, "no such thing", b"\x00\xffcookie"))

    def test_results_of_other_operations(self) -> None:
        """A bind answers the server's credentials; an extended result has only its code here."""
        bound = pureldap.LDAPBindResponse(resultCode=14, serverSaslCreds=b"token")
        self.assertEqual(decode(message(bound))[1], Result(14, credentials=b"token"))
        extended = pureldap.LDAPExtendedResponse(resultCode=0, responseName=b"1.3.6.1.4.1.1466.20037")
        self.assertEqual(decode(message(extended))[1], Result(0))
        self.assertEqual(decode(message(pureber.BERSequence([], tag=0x73)))[1], SearchReference())

    def test_long_text(self) -> None:
        """A text of the server is truncated to fit into a log line."""
        _, result = decode(message(pureldap.LDAPDelResponse(resultCode=1, errorMessage=b"x" * 100_000)))
        self.assertEqual(result, Result(1, "x" * LONGEST_TEXT))

    def test_name_that_is_not_utf8(self) -> None:
        """One entry with a damaged name does not keep the others of an answer from being read."""
        _, entry = decode(group(1, name=b"CN=\xff,DC=example"))
        assert isinstance(entry, Entry)
        self.assertEqual(entry.name, "CN=\N{REPLACEMENT CHARACTER},DC=example")

    def test_many_values_in_steps(self) -> None:
        """A hundred thousand values are decoded in steps, between which other work is done."""
        data = group(100_000)
        self.assertEqual(len(list(decoding(data))), 100_000 // PARTS_AT_ONCE)
        _, entry = decode(data)
        assert isinstance(entry, Entry)
        self.assertEqual(len(entry.all("member")), 100_000)

    def test_more_values_than_are_taken(self) -> None:
        """An entry with too many values, or attributes, is refused by its name and its request."""
        self.patch(decoder, "MOST_PARTS", 2 * PARTS_AT_ONCE)
        with self.assertRaises(LdapTooLongError) as refused:
            decode(group(3 * PARTS_AT_ONCE))
        self.assertEqual(refused.exception.number, 5)
        self.assertIn("CN=all,DC=example has more than 8000", str(refused.exception))
        self.assertEqual(message_number(group(1)[:40]), 5)
        error = too_long(group(10_000)[:4096], 77_000_000)
        self.assertEqual(error.number, 5)
        self.assertIn("CN=all,DC=example has 77000000 bytes", str(error))

    def test_attribute_twice(self) -> None:
        """An entry that has an attribute twice is refused, not read as one of the two."""
        twice = pureldap.LDAPSearchResultEntry("CN=x", [("cn", [b"a"]), ("CN", [b"b"])])
        self.assertRaises(LdapWireError, decode, message(twice))

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        """Any bytes from a server are decoded as a message or refused."""
        whole = b"\x30" + bytes([len(data)]) + data
        self.assertEqual(message_length(whole, 0), len(whole))
        for read in (decode, message_number, lambda head: too_long(head, 1)):
            try:
                read(whole)
            except LdapWireError as error:
                self.assertTrue(str(error))

    @given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
    def test_damaged(self, place: int, other: bytes) -> None:
        """A message with some bytes replaced or cut off is a message, or is refused."""
        page = paged(0, b"cookie")
        done = pureldap.LDAPBindResponse(resultCode=14, errorMessage=b"said", serverSaslCreds=b"token")
        for whole in (group(4), message(done, [(page.kind, None, page.value)])):
            at = place % len(whole)
            for data in (whole[:at] + other + whole[at + len(other) :], whole[:at]):
                try:
                    decode(data)
                except LdapWireError as error:
                    self.assertTrue(str(error))

    def test_part(self) -> None:
        """The length of an incomplete message is known as soon as its header has arrived."""
        data = message(pureldap.LDAPSearchResultEntry("CN=x", [("a", [b"b" * 300])]))
        for end in range(len(data)):
            self.assertIn(message_length(data[:end], 0), (None, len(data)))
        self.assertEqual(message_length(data + b"0", 0), len(data))

    def test_no_message(self) -> None:
        """Data that begins no message, or one without a length, is refused at once."""
        for data in (
            b"HTTP/1.1",
            b"\x30\x80\x00",
            b"\x30\x85\x01\x01\x01\x01\x01",
            b"\x30\x84\xff\xff\xff\xff",
        ):
            self.assertRaises(LdapWireError, message_length, data, 0)
