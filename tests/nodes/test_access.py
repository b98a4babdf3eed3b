"""Who may send: signed messages of users of a directory, from addresses that nobody trusts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.access import Account, IAccounts
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.objects import EnterpriseObject
from msmq.security.access.control import LIFETIME, AccessControl
from msmq.wire.sid import format_sid, parse_sid
from tests.contracts.signing import OTHER_SID, SID
from tests.nodes.signed import CountedDirectory, SigningTestCase
from tests.nodes.support import Node

STRANGER = "198.51.100.7"
CLERKS = parse_sid("S-1-5-21-1-2-3-2001")
FOR_CLERKS = f"O:BAD:(A;;0x4;;;{format_sid(CLERKS)})"


class SignedAccessTests(SigningTestCase):
    """BETA's queue is for the clerks of the directory, of whom alice is one and bob is none."""

    def setUp(self) -> None:
        super().setUp()
        self.closed = self.queue(self.beta, "closed", security=FOR_CLERKS)
        self.accounts.add_account(Account(SID, "alice", frozenset({CLERKS})))
        self.accounts.add_account(Account(OTHER_SID, "bob"))
        self.peer = self.dial(host=self.network.host(STRANGER))

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
        """Whose signature holds is known, wherever he sends from, and may what his group may.

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
            f"NACK_ACCESS_DENIED from {STRANGER}: MQSEC_WRITE_MESSAGE: no entry of the DACL allows it to"
            f" {format_sid(OTHER_SID)} or its groups, by its descriptor",
        )

    def test_who_signs_as_somebody_else(self) -> None:
        """Bob's key proves nothing about alice."""
        self.say(self.signed(self.to_closed(), by=self.bob))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertTrue(self.only().startswith(f"NACK_BAD_SIGNATURE from {STRANGER}: "))

    def test_a_signature_that_names_nobody(self) -> None:
        """It holds, and says nothing of who made it: its sender is as strange as that of an unsigned one."""
        self.say(self.signed(self.to_closed(), security_id=b""))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn(f'peers = ["{STRANGER}"]', self.only())

    def test_groups_change(self) -> None:
        """Within five minutes; while the directory cannot be asked, who is not remembered is denied."""
        self.say(self.signed(self.to_closed()))
        self.accounts.add_account(Account(SID, "alice"))
        self.say(self.signed(self.to_closed()))
        self.assertEqual(len(self.arrived(self.closed)), 2)
        self.clock.advance(LIFETIME)
        self.peer = self.dial(host=self.network.host(STRANGER))
        self.say(self.signed(self.to_closed()))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn("no entry of the DACL allows it", self.only())
        self.clock.advance(LIFETIME)
        self.peer = self.dial(host=self.network.host(STRANGER))
        self.accounts.is_connected = False
        self.say(self.signed(self.to_closed()))
        self.assertEqual(self.arrived(self.closed), [])
        self.assertIn(f"the groups of {format_sid(SID)} are not known: ", self.only())
