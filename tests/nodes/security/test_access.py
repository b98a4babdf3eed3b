"""Access by signed messages: users of a directory, sending from untrusted addresses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.security.access import Account, IAccounts
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.objects import EnterpriseObject
from msmq.security.access.control import LIFETIME, AccessControl
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.wire.sid import format_sid, parse_sid
from tests.nodes.signed import CountedDirectory, SigningTestCase
from tests.nodes.support import Node

UNTRUSTED = "198.51.100.7"
CLERKS = parse_sid("S-1-5-21-1-2-3-2001")
FOR_CLERKS = f"O:BAD:(A;;0x4;;;{format_sid(CLERKS)})"


class SignedAccessTests(SigningTestCase):
    """BETA's queue grants rights to the clerks of the directory; alice is one of them, bob is not."""

    def setUp(self) -> None:
        super().setUp()
        self.closed = self.queue(self.beta, "closed", security=FOR_CLERKS)
        self.accounts.add_account(Account(SID, "alice", frozenset({CLERKS})))
        self.accounts.add_account(Account(OTHER_SID, "bob"))
        self.peer = self.dial(host=self.network.host(UNTRUSTED))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if self.directory is None:
            self.directory = CountedDirectory(self.clock)
            self.directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        self.accounts: MemoryDirectory = self.directory
        if name == "BETA":
            access = AccessControl(IAccounts(self.directory), self.clock)
            kwargs["options"] = {"access": AccessPolicy(access, SID)}
        return super().node(name, identifier, **kwargs)

    def to_closed(self, **kwargs: Any) -> Any:
        return self.fields(destination="TCP:127.0.0.3\\private$\\closed", **kwargs)

    def only(self) -> str:
        """Why the last message was refused."""
        [reason] = self.reasons()
        return reason

    def test_a_clerk(self) -> None:
        """A verified signature identifies the sender from any address, with the rights of its groups.

        MQQB-5.1-03.
        """
        self.say(self.signed(self.to_closed()))
        self.assertEqual(len(self.arrived(self.closed)), 1)
        self.assertEqual(self.reasons(), [])

    def test_another_user(self) -> None:
        """Bob is known as well, and no clerk (MQQB-5.1-03)."""
        self.say(self.signed(self.to_closed(), by=self.bob, security_id=OTHER_SID))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertEqual(
            self.only(),
            f"NACK_ACCESS_DENIED from {UNTRUSTED}: MQSEC_WRITE_MESSAGE: no entry of the DACL allows it to"
            f" {format_sid(OTHER_SID)} or its groups, by its descriptor",
        )

    def test_signature_by_the_key_of_another_user(self) -> None:
        """A signature by bob's key does not authenticate alice."""
        self.say(self.signed(self.to_closed(), by=self.bob))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertTrue(self.only().startswith(f"NACK_BAD_SIGNATURE from {UNTRUSTED}: "))

    def test_a_signature_without_a_certificate_in_the_directory(self) -> None:
        """A valid signature without a known owner leaves its sender unauthenticated, as an unsigned message
        does.
        """
        self.say(self.signed(self.to_closed(), security_id=b""))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn(f'peers = ["{UNTRUSTED}"]', self.only())

    def test_groups_change(self) -> None:
        """Changes count within five minutes; while the directory is unreachable, users that are not cached
        are denied.
        """
        self.say(self.signed(self.to_closed()))
        self.accounts.add_account(Account(SID, "alice"))
        self.say(self.signed(self.to_closed()))
        self.assertEqual(len(self.arrived(self.closed)), 2)
        self.clock.advance(LIFETIME)
        self.peer = self.dial(host=self.network.host(UNTRUSTED))
        self.say(self.signed(self.to_closed()))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn("no entry of the DACL allows it", self.only())
        self.clock.advance(LIFETIME)
        self.peer = self.dial(host=self.network.host(UNTRUSTED))
        self.accounts.is_connected = False
        self.say(self.signed(self.to_closed()))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn(f"the groups of {format_sid(SID)} are not known: ", self.only())
