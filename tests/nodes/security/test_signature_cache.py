"""Certificates that were verified are remembered, and what they verify is verified again."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from msmq.manager.securing.authentication import OWNER_READS
from msmq.membership.objects import QueueManagerObject, UserObject
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.transfer.security.unproven_senders import LIFETIME
from tests.builders import BETA, GAMMA
from tests.nodes.signed import SigningTestCase


class CacheTests(SigningTestCase):
    """[MS-MQQB] 3.1.1.3 UserCertCache, as queries to the directory show it."""

    def asked(self) -> int:
        """How often users were asked for, since this was asked last."""
        assert self.directory is not None
        count = self.directory.reads.count(UserObject)
        self.directory.reads.clear()
        return count

    def test_asked_once(self) -> None:
        """A certificate is asked for once in twenty minutes, and each with its own user.

        MQQB-3.1.1.3-01, MQQB-3.1.1.3.4-01, MQQB-3.1.5.8.3-09, MQQB-3.1.5.8.3-10, MQQB-3.1.2.13-01,
        MQQB-3.1.6.13-01.
        """
        self.asked()
        for _ in range(3):
            self.say(self.signed(self.fields()))
        self.assertEqual((len(self.arrived()), self.asked()), (3, 1))
        self.refused(self.signed(self.fields(), by=self.bob))
        self.assertEqual(self.asked(), 2)
        self.refused(self.signed(self.fields(), security_id=OTHER_SID))
        self.assertEqual(self.asked(), 2)
        self.clock.advance(1190)
        self.peer = self.dial()
        self.say(self.signed(self.fields()))
        self.assertEqual((len(self.arrived()), self.asked()), (1, 0))
        self.clock.advance(80)
        self.peer = self.dial()
        self.say(self.signed(self.fields()))
        self.assertEqual((len(self.arrived()), self.asked()), (1, 1))

    def test_forged_senders_cause_few_queries(self) -> None:
        """False identities cost the directory at most two queries in three seconds.

        Senders that the directory has are authenticated meanwhile, new certificates within that time.
        """
        carol = self.make_credentials(2)
        self.register(SID, self.alice, carol)
        self.asked()
        reasons = {self.refused(self.signed(self.fields(), by=self.bob)) for _ in range(20)}
        self.assertEqual(self.asked(), 2)
        [reason] = reasons
        self.assertIn("is that of S-1-5-21-1-2-3-1002 in the directory, not of", reason)
        for number in range(10, 15):
            reason = self.refused(self.signed(self.fields(), by=self.make_credentials(number)))
            self.assertIn("is not one of the 2 that the directory has for S-1-5-21-1-2-3-1001", reason)
        self.assertEqual(self.asked(), 0)
        self.say(self.signed(self.fields(), by=carol))
        self.assertEqual((len(self.arrived()), self.asked()), (1, 1))
        new = self.make_credentials(20)
        self.refused(self.signed(self.fields(), by=new))
        self.register(SID, self.alice, new)
        self.clock.advance(LIFETIME)
        self.say(self.signed(self.fields(), by=new))
        self.assertEqual(len(self.arrived()), 1)

    def test_unknown_senders_cause_few_queries(self) -> None:
        """The same holds for a user, or a queue manager, that the directory does not have."""
        assert self.directory is not None
        unknown_sid = SID[:-1] + b"\x7f"
        self.asked()
        reasons = {self.refused(self.signed(self.fields(), security_id=unknown_sid)) for _ in range(20)}
        self.assertEqual((len(reasons), self.asked()), (1, 1))
        self.assertIn("the directory has no such user", reasons.pop())
        self.clock.advance(LIFETIME)
        for _ in range(20):
            self.say(self.signed(self.fields(), security_id=GAMMA.bytes_le, flags=0x00C2))
        self.assertEqual(len(self.arrived()), 20)
        self.assertEqual(self.directory.reads.count(QueueManagerObject), 1)

    def test_many_unknown_certificates(self) -> None:
        """The owner of a certificate, which only the reason shows, is looked up ten times in a second."""
        for number in range(30):
            self.register(SID[:-2] + number.to_bytes(2, "little"), self.alice)
        self.asked()
        for number in range(30):
            sid = SID[:-2] + number.to_bytes(2, "little")
            self.say(self.signed(self.fields(), by=self.bob, security_id=sid), seconds=0.001)
        self.assertEqual(self.asked(), 30 + OWNER_READS)

    def test_the_directory_is_away(self) -> None:
        """Without the directory what is known goes on, and everything else is refused."""
        assert self.directory is not None
        self.say(self.signed(self.fields()))
        self.assertEqual(len(self.arrived()), 1)
        self.directory.is_connected = False
        self.say(self.signed(self.fields()))
        self.assertEqual(len(self.arrived()), 1)
        reason = self.refused(self.signed(self.fields(), by=self.bob, security_id=OTHER_SID))
        self.assertIn("not confirmed as that of S-1-5-21-1-2-3-1002: the directory does not answer", reason)

    def hold(self) -> Deferred[None]:
        """From now on the directory answers no query for users before this fires."""
        assert self.directory is not None
        held: Deferred[None] = Deferred()
        read = self.directory.read

        def reading(of: type, *args: Any, **kwargs: Any) -> Any:
            if of is UserObject:
                return held.addCallback(lambda _: read(of, *args, **kwargs))
            return read(of, *args, **kwargs)

        self.patch(self.directory, "read", reading)
        return held

    def test_the_directory_is_late(self) -> None:
        """A message waits for half a minute; a later answer changes nothing, and is not logged as a fault."""
        held = self.hold()
        self.say(self.signed(self.fields()), seconds=29)
        self.assertEqual(self.reasons(), [])
        self.clock.advance(2)
        [reason] = self.reasons()
        self.assertIn("the directory does not answer (it took too long)", reason)
        held.callback(None)
        self.clock.advance(1)
        self.assertEqual((self.arrived(), self.reasons()), ([], []))
        self.say(self.signed(self.fields()))
        self.assertEqual(len(self.arrived()), 1)

    def test_the_directory_is_later_than_the_end(self) -> None:
        """A queue manager that stops waits for no answer."""
        held = self.hold()
        self.say(self.signed(self.fields()))
        self.beta.service.stopService()
        self.clock.advance(1)
        held.callback(None)
        again = self.node("BETA", BETA, store=self.beta.store)
        self.run_to_end(again.service.open())
        self.assertEqual(self.reasons(again), [])
