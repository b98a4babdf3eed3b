"""LDAP requests as bytes."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.transport.filters import Equal, Present, of_class
from msmq.directory.ldap.transport.wire import Bind, Scope, SearchRequest, encode

GUID = UUID("f00dface-8081-82ff-9c5c-2a28295c0000")


class EncodingTests(SynchronousTestCase):
    """Encoded requests."""

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
        """A printed request has no password."""
        self.assertNotIn("hunter2", repr(Bind("cn=admin", b"hunter2")))
        self.assertIn(b"hunter2", encode(1, Bind("cn=admin", b"hunter2")))
