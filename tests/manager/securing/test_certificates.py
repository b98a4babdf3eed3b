"""The certificates of a queue manager, and how others come to believe them."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred

from msmq.interfaces.manager.access_summaries import CertificateSummary
from msmq.interfaces.security.signing import KeptCertificate
from msmq.manager.securing import certificate_publication as certificate_publishing
from msmq.manager.securing.certificate_publication import ATTEMPTS
from msmq.membership.objects import UserObject
from msmq.membership.queries import equals
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.status import MQError
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.wire.sid import parse_sid
from tests.nodes.signed import DAY, TO_BETA, SigningTestCase

OTHER_TEXT = "S-1-5-21-1-2-3-1002"


class CertificateTests(SigningTestCase):
    """ALPHA, whose sender has only an old certificate in the directory."""

    def refusal(self, doing: Coroutine[Deferred[object], Any, Any]) -> str:
        """The name under which something is refused."""
        error: MQError = self.failureResultOf(self.deferred(doing), MQError).value
        return error.status.name.removeprefix("MQ_ERROR_")

    def create(self, **kwargs: Any) -> CertificateSummary:
        return self.run_to_end(self.alpha.service.access.create_certificate(**kwargs))

    def user(self, sid: bytes) -> UserObject:
        """As the directory has it."""
        assert self.directory is not None
        found = self.successResultOf(self.directory.read(UserObject, [equals("security_identifier", sid)]))
        held: UserObject = found.object
        return held

    def test_internal_certificates(self) -> None:
        """A user has at most one, whose key the server holds; it survives a restart.

        MQDMPR-3.1.1.1-40, MQDMPR-3.1.1.19-01.
        """
        made = self.create(name="Alice")
        self.assertEqual((made.sid, made.subject, made.internal), ("S-1-5-21-1-2-3-1001", "CN=Alice", True))
        self.assertEqual(
            self.refusal(self.alpha.service.access.create_certificate()), "INTERNAL_USER_CERT_EXIST"
        )
        other = self.create(sid=OTHER_TEXT)
        self.assertEqual(other.subject, f"CN={OTHER_TEXT}")
        renewed = self.create(renew=True, days=1)
        found = [each.fingerprint for each in self.alpha.service.access.certificates()]
        self.assertEqual(found, [other.fingerprint, renewed.fingerprint])
        self.assertEqual(len(self.own_stores["ALPHA"].load()), 2)
        self.assertEqual(self.alpha.service.access.certificate().fingerprint, renewed.fingerprint)
        self.clock.advance(2 * DAY)
        self.assertEqual([each.valid for each in self.alpha.service.access.certificates()], [True, False])

    def test_wrong_wishes(self) -> None:
        """An impossible request is refused with its name."""
        service = self.alpha.service
        for wish in ({"sid": "alice"}, {"days": 0}, {"name": "x" * 65}, {"name": "a\nb"}):
            self.assertEqual(
                self.refusal(service.access.create_certificate(**wish)), "ILLEGAL_PROPERTY_VALUE"
            )
        self.assertEqual(self.refusal(service.access.publish_certificate()), "CERTIFICATE_NOT_PROVIDED")
        for doing in (
            lambda: service.access.certificate("12345678"),
            lambda: service.access.certificate("123"),
            lambda: service.access.delete_certificate(""),
        ):
            error = self.assertRaises(MQError, doing)
            self.assertEqual(error.status.name, "MQ_ERROR_CERTIFICATE_NOT_PROVIDED")

    def test_publishing(self) -> None:
        """A certificate that is registered with its user is trusted, in addition to the earlier ones.

        MQDMPR-3.1.1.15-01, MQDMPR-3.1.1.15-02, MQMQ-2.2.22-02, MQMQ-2.2.22-03.
        """
        self.create()
        name = TO_BETA.format("strict")
        level = AuthenticationLevel.SIG_2_0
        self.send(self.alpha, name, b"1", authentication_level=level)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, self.strict), [])
        made = self.run_to_end(self.alpha.service.access.publish_certificate())
        self.assertEqual(self.run_to_end(self.alpha.service.access.publish_certificate()), made)
        user = self.user(SID)
        old, new = user.certificates.certificates
        self.assertEqual((old.certificate, new.certificate), (self.alice.certificate, made.certificate))
        self.assertEqual(new.digest, hashlib.md5(made.certificate, usedforsecurity=False).digest())
        self.assertEqual(user.certificate_digest_list, (old.digest, new.digest))
        self.assertNotIn(new.identifier, (old.identifier, user.identifier))
        self.send(self.alpha, name, b"2", authentication_level=level)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, self.strict), [b"2"])

    def test_an_unknown_user(self) -> None:
        """A directory that can be written gets the user with its certificate."""
        made = self.create(sid="S-1-5-21-7")
        self.run_to_end(self.alpha.service.access.publish_certificate(made.fingerprint))
        made_there = self.user(bytes.fromhex("010200000000000515000000") + b"\7\0\0\0")
        [entry] = made_there.certificates.certificates
        self.assertEqual(entry.certificate, made.certificate)

    def test_two_at_one_time(self) -> None:
        """Two concurrent publications do not overwrite each other."""
        directory = self.directory
        assert directory is not None
        mine = self.create()
        [before] = self.user(SID).certificates.certificates
        theirs = self.run_to_end(self.beta.service.access.create_certificate(sid="S-1-5-21-1-2-3-1001"))

        def publish_theirs() -> None:
            directory.meanwhile = lambda: None
            self.run_to_end(self.beta.service.access.publish_certificate(theirs.fingerprint))

        directory.meanwhile = publish_theirs
        self.run_to_end(self.alpha.service.access.publish_certificate())
        held = self.user(SID)
        expected = [before.certificate, theirs.certificate, mine.certificate]
        self.assertEqual([each.certificate for each in held.certificates.certificates], expected)
        self.assertEqual(
            held.certificate_digest_list, tuple(each.digest for each in held.certificates.certificates)
        )

    def test_a_new_user_at_one_time(self) -> None:
        """The same for a user that is not in the directory yet."""
        directory = self.directory
        assert directory is not None
        new = "S-1-5-21-7"
        mine, theirs = (
            self.run_to_end(node.service.access.create_certificate(sid=new))
            for node in (self.alpha, self.beta)
        )

        def publish_theirs() -> None:
            directory.meanwhile = lambda: None
            self.run_to_end(self.beta.service.access.publish_certificate(theirs.fingerprint))

        directory.meanwhile = publish_theirs
        self.run_to_end(self.alpha.service.access.publish_certificate(mine.fingerprint))
        held = self.user(parse_sid(new)).certificates.certificates
        self.assertEqual([each.certificate for each in held], [theirs.certificate, mine.certificate])

    def test_others_without_end(self) -> None:
        """A publication that is overtaken again and again fails in the end, with that reason."""
        directory = self.directory
        assert directory is not None
        self.create()
        made = [self.make_credentials(number) for number in range(2, 2 + ATTEMPTS)]
        rest = iter(made)
        directory.meanwhile = lambda: self.register(SID, next(rest))
        error: MQError = self.failureResultOf(
            self.deferred(self.alpha.service.access.publish_certificate()), MQError
        ).value
        self.assertEqual(error.status.name, "MQ_ERROR_DS_ERROR")
        self.assertIn(f"{ATTEMPTS} attempts", error.detail)
        directory.meanwhile = lambda: None
        [left] = self.user(SID).certificates.certificates
        self.assertEqual(left.certificate, made[-1].certificate)

    def test_too_many(self) -> None:
        """A value over the limit of the directory is not sent to it ([MS-ADA2] 2.587)."""
        self.create()
        self.patch(certificate_publishing, "MOST_BYTES", 100)
        error: MQError = self.failureResultOf(
            self.deferred(self.alpha.service.access.publish_certificate()), MQError
        ).value
        self.assertEqual(error.status.name, "MQ_ERROR_DS_ERROR")
        self.assertIn("holds 100; an administrator removes old ones", error.detail)
        self.assertEqual(len(self.user(SID).certificates.certificates), 1)

    def test_the_directory_is_away(self) -> None:
        """Then nothing is registered, and the error says why."""
        assert self.directory is not None
        self.create()
        self.directory.is_connected = False
        self.assertEqual(self.refusal(self.alpha.service.access.publish_certificate()), "NO_DS")

    def test_which_one_signs(self) -> None:
        """The sender's own by default; another by the beginning of its fingerprint."""
        mine, other = self.create(), self.create(sid=OTHER_TEXT)
        for made in (mine, other):
            self.run_to_end(self.alpha.service.access.publish_certificate(made.fingerprint))
        level = AuthenticationLevel.SIG_2_0
        name = TO_BETA.format("strict")
        self.send(self.alpha, name, b"1", authentication_level=level)
        chosen = other.fingerprint[:12].upper()
        self.send(self.alpha, name, b"2", authentication_level=level, sender_certificate=chosen)
        self.clock.advance(5)
        senders = {bytes(view.body): view.sender_id for view in self.take(self.beta, self.strict)}
        self.assertEqual(senders, {b"1": "S-1-5-21-1-2-3-1001", b"2": OTHER_TEXT})
        self.assertEqual(
            [kept.security_identifier for kept in self.own_stores["ALPHA"].load()], [SID, OTHER_SID]
        )

    def test_one_that_expired(self) -> None:
        """The valid one of two certificates signs; concurrent requests create one."""
        self.create(days=1)
        lasting = self.signing.create("lasting", 0, 1e11)
        assert lasting.private_key is not None
        taken = self.alpha.service.access.import_certificate(
            lasting.certificate + b"\n" + lasting.private_key
        )
        self.assertNotEqual(self.alpha.service.access.certificate().fingerprint, taken.fingerprint)
        self.clock.advance(2 * DAY)
        self.assertEqual(self.alpha.service.access.certificate().fingerprint, taken.fingerprint)
        self.assertEqual(
            self.refusal(self.alpha.service.access.create_certificate()), "INTERNAL_USER_CERT_EXIST"
        )

    def test_importing(self) -> None:
        """A certificate comes with its key, once."""
        service = self.alpha.service
        made = self.bob
        assert made.private_key is not None
        taken = service.access.import_certificate(made.certificate + b"\n" + made.private_key, sid=OTHER_TEXT)
        self.assertEqual((taken.internal, taken.sid), (False, OTHER_TEXT))
        for data in (made.certificate, b"rubbish", made.certificate + b"\n" + made.private_key):
            error = self.assertRaises(MQError, service.access.import_certificate, data)
            self.assertEqual(error.status.name, "MQ_ERROR_INVALID_CERTIFICATE")
        [kept] = self.own_stores["ALPHA"].load()
        self.assertEqual(kept, KeptCertificate(made, OTHER_SID, is_internal=False))
        service.access.delete_certificate(taken.fingerprint)
        self.assertEqual((service.access.certificates(), self.own_stores["ALPHA"].load()), ([], ()))
