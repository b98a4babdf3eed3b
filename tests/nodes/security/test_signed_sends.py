"""Messages that are signed where they are sent, as both sides see them."""

from __future__ import annotations

import functools

import attrs

from msmq.decoding.message_json import message_json
from msmq.interfaces.security.access import Account
from msmq.interfaces.security.signing import CertificateFacts, Credentials, ISigning, KeptCertificate
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.securing.authentication import version_of
from msmq.manager.securing.permissions import Permissions
from msmq.manager.securing.restricted_manager import RestrictedQueueManager
from msmq.manager.securing.security_descriptors import AccessPolicy, SecurityDescriptors
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.arriving.message import Delivery, Message
from msmq.security.signatures import LibrarySigning
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.wire.sid import format_sid
from tests.builders import ALPHA
from tests.nodes.scripted import DEADLETTER
from tests.nodes.signed import DAY, LEVELS, TO_BETA, WALL, SigningTestCase


class SendingTests(SigningTestCase):
    """[MS-MQQB] 3.1.7.1.4: ALPHA signs, BETA verifies."""

    def setUp(self) -> None:
        super().setUp()
        self.own_stores["ALPHA"].add(KeptCertificate(self.alice, SID, is_internal=True))
        self.alpha.service._parts.security.messages.open()

    def arrived_from_alpha(self, path: str) -> list[UserMessageView]:
        self.clock.advance(5)
        return self.arrived(path)

    def test_each_level(self) -> None:
        """Each level arrives as what it was sent as, of every kind of message.

        MQQB-3.1.7.1.4-01, MQQB-3.1.7.1.4-03, MQMQ-2.2.19.3-20, MQDMPR-3.1.1.12-42, MQDMPR-3.1.1.12-50,
        MQDMPR-3.1.7.1.32-10.
        """
        for level in LEVELS:
            self.send(self.alpha, TO_BETA.format("strict"), b"express", authentication_level=level)
            self.send(
                self.alpha,
                TO_BETA.format("strict"),
                b"recoverable",
                authentication_level=level,
                delivery=Delivery.RECOVERABLE,
            )
            found = self.arrived_from_alpha(self.strict)
            self.assertEqual(sorted(bytes(view.body) for view in found), [b"express", b"recoverable"])
            for view in found:
                self.assertIs(view.authentication_level, level)
                self.assertEqual(view.hash_algorithm, HashAlgorithm.SHA_512)
                security = view.security
                assert security is not None
                self.assertEqual(security.sender_cert, self.alice.certificate)
            self.send(
                self.alpha,
                TO_BETA.format("orders"),
                *(b"1", b"2", b"3"),
                authentication_level=level,
                transactional=True,
                extension=b"an extension",
                label="a label",
            )
            found = self.arrived_from_alpha(self.path)
            self.assertEqual([bytes(view.body) for view in found], [b"1", b"2", b"3"])
            self.assertEqual({view.authentication_level for view in found}, {level})

    def test_flags_on_the_wire(self) -> None:
        """Flags.AU and AS are 0 on the wire, DE and AI are 1, ST is that of a SID.

        MQDMPR-3.1.7.1.32-06, MQDMPR-3.1.7.1.32-07, MQDMPR-3.1.7.1.32-09, MQDMPR-3.1.7.1.30-03.
        """
        self.listen(is_prompt=True)
        name = "DIRECT=TCP:127.0.0.4\\private$\\q"
        self.send(self.alpha, name, b"signed", authentication_level=AuthenticationLevel.SIG_2_0)
        self.send(self.alpha, name, b"plain")
        self.clock.advance(5)
        signed, plain = self.peers[-1].messages
        self.assertTrue(signed.user_flags & 0x00080000)
        self.assertFalse(plain.user_flags & 0x00080000)
        start = 64 + signed.name_size
        self.assertEqual(signed.at("H", start), 0x00C1)
        self.assertEqual(signed.at("H", start + 2), len(SID))

    def test_several_destinations(self) -> None:
        """A message to several queues has one signature over all of them, for any requested level.

        MQQB-3.1.7.1.4-02, MQDMPR-3.1.1.12-27, MQMQ-2.2.20.3-04.
        """
        others = self.queue(self.beta, "others", authenticate=True)
        names = ",".join(TO_BETA.format(name) for name in ("strict", "others"))
        self.send(self.alpha, names, b"body", authentication_level=AuthenticationLevel.SIG_1_0)
        for path in (self.strict, others):
            [view] = self.arrived_from_alpha(path)
            self.assertIs(view.authentication_level, AuthenticationLevel.SIG_3_0)
            multi_queue, security = view.multi_queue_format, view.security
            assert multi_queue is not None
            assert security is not None
            self.assertEqual((bool(multi_queue.signature.signature), security.signature), (True, b""))

    def test_local_queue_requires_signatures(self) -> None:
        """A local queue knows the signer, and demands a signature of local senders too."""
        path = self.queue(self.alpha, "strict", authenticate=True)
        self.send(self.alpha, path, b"signed", authentication_level=AuthenticationLevel.SIG_2_0)
        [view] = self.take(self.alpha, path)
        self.assertTrue(message_json(view)["authenticated"])
        level = AuthenticationLevel.SIG_2_0
        for message in (
            Message(body=b"plain"),
            Message(authentication_level=level, sender_identifier_type=SenderIdType.NONE),
            Message(authentication_level=level, sender_identifier_type=SenderIdType.QUEUE_MANAGER),
        ):
            sending = self.deferred(self.alpha.service.send(path, [message]))
            error = self.failureResultOf(sending, MQError).value
            self.assertEqual(error.status, Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED)
        self.assertEqual(self.take(self.alpha, path), [])

    def test_messages_that_cannot_be_signed(self) -> None:
        """No certificate, one that expired, a weak or unknown hash: the send is refused, and says why."""
        level = AuthenticationLevel.SIG_2_0
        for message, status in (
            (Message(authentication_level=level, sender_certificate="00" * 32), "CERTIFICATE_NOT_PROVIDED"),
            (Message(authentication_level=level, sender_certificate="00"), "CERTIFICATE_NOT_PROVIDED"),
            (Message(authentication_level=level, hash_algorithm=0x8003), "ILLEGAL_PROPERTY_VALUE"),
            (Message(authentication_level=level, hash_algorithm=0x9999), "ILLEGAL_PROPERTY_VALUE"),
        ):
            sending = self.deferred(self.alpha.service.send(TO_BETA.format("plain"), [message]))
            error = self.failureResultOf(sending, MQError).value
            self.assertEqual(error.status.name, f"MQ_ERROR_{status}")
        self.clock.advance(2 * DAY)
        sending = self.deferred(
            self.alpha.service.send(TO_BETA.format("plain"), [Message(authentication_level=level)])
        )
        error = self.failureResultOf(sending, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_INVALID_CERTIFICATE)
        sending = self.deferred(
            self.beta.service.send(TO_BETA.format("plain"), [Message(authentication_level=level)])
        )
        error = self.failureResultOf(sending, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED)

    def test_both_sides_explain(self) -> None:
        """For a signed message that BETA refuses, both sides show the reason (MQQB-3.1.5.8.3-11)."""
        self.register(SID)
        self.send(
            self.alpha,
            TO_BETA.format("orders"),
            b"1",
            transactional=True,
            authentication_level=AuthenticationLevel.SIG_2_0,
            dead_letter=True,
        )
        self.clock.advance(5)
        [dead_letter] = self.take(self.alpha, ".\\system$;deadxact")
        self.assertEqual(dead_letter.message_class, MessageClass.NACK_BAD_SIGNATURE)
        reported = self.run_to_end(self.beta.service.inspection.explain(dead_letter.identifier))
        self.assertIn(
            "is not one of the 0 that the directory has", " ".join(e.reason for e in reported.events)
        )
        reported = self.run_to_end(self.alpha.service.inspection.explain(dead_letter.identifier))
        self.assertIn("NACK_BAD_SIGNATURE", " ".join(event.reason for event in reported.events))

    def test_sender_identifier(self) -> None:
        """A signed message carries the SID of its sender by default; any message carries what the caller
        sets.

        MQDMPR-3.1.1.12-49, MQDMPR-3.1.1.12-51, MQMQ-2.2.20.6-03, MQMQ-2.2.20.6-04.
        """
        level = AuthenticationLevel.SIG_2_0
        self.listen(is_prompt=True)
        to_gamma = "DIRECT=TCP:127.0.0.4\\private$\\q"
        identifiers = {
            SenderIdType.NONE: b"",
            SenderIdType.SID: SID,
            SenderIdType.QUEUE_MANAGER: ALPHA.bytes_le,
        }
        cases: list[tuple[AuthenticationLevel, SenderIdType | None]] = [(level, None)]
        cases += [(each, kind) for each in (level, AuthenticationLevel.NONE) for kind in SenderIdType]
        for each, kind in cases:
            self.send(self.alpha, to_gamma, b"body", authentication_level=each, sender_identifier_type=kind)
        self.clock.advance(5)
        for (each, kind), heard in zip(cases, self.peers[-1].messages, strict=True):
            expected = SenderIdType.SID if kind is None else kind
            security = UserMessageView(heard.packet).security
            if not each and expected is SenderIdType.NONE:
                self.assertIsNone(security)
                continue
            assert security is not None
            self.assertEqual(
                (security.sender_id_type, security.security_id), (expected, identifiers[expected])
            )
            flags = heard.at("H", 64 + heard.name_size)
            self.assertEqual(flags, expected | (0x00C0 if each else 0))
        self.send(
            self.alpha,
            TO_BETA.format("plain"),
            b"body",
            authentication_level=level,
            sender_identifier_type=SenderIdType.NONE,
        )
        [view] = self.arrived_from_alpha(self.plain)
        self.assertEqual((view.sender_id, message_json(view)["authenticated"]), (None, False))

    def test_resent_dead_letters_are_signed_again(self) -> None:
        """A dead letter that is sent again is signed as it was, since its certificate is here."""
        path = self.queue(self.beta, "payments", transactional=True, authenticate=True)
        for level in LEVELS:
            self.register(SID)
            self.send(
                self.alpha,
                TO_BETA.format("payments"),
                b"body",
                transactional=True,
                dead_letter=True,
                authentication_level=level,
            )
            self.clock.advance(5)
            [dead_letter] = self.run_to_end(self.alpha.service.inspection.dead_letters())
            self.assertEqual(dead_letter.message.view.message_class, MessageClass.NACK_BAD_SIGNATURE)
            self.register(SID, self.alice)
            self.run_to_end(self.alpha.service.requeue(dead_letter.message.view.identifier))
            [view] = self.arrived_from_alpha(path)
            self.assertEqual(bytes(view.body), b"body")
            self.assertIs(view.authentication_level, level)
            self.clock.advance(1300)

    def test_resent_dead_letters_have_the_same_hash_and_sender(self) -> None:
        """A receiver that verifies one hash only accepts what is sent again, and an anonymous message stays
        one.
        """
        to_gamma = "DIRECT=TCP:127.0.0.4\\private$\\q"
        kinds = [SenderIdType.NONE, SenderIdType.SID, SenderIdType.QUEUE_MANAGER]
        for kind in kinds:
            self.send(
                self.alpha,
                to_gamma,
                b"body",
                time_to_reach_queue=1,
                dead_letter=True,
                authentication_level=AuthenticationLevel.SIG_2_0,
                sender_identifier_type=kind,
                hash_algorithm=HashAlgorithm.SHA_256,
            )
        self.clock.advance(5)
        dead_letters = self.run_to_end(self.alpha.service.inspection.dead_letters())
        self.listen(is_prompt=True)
        for dead_letter in dead_letters:
            self.run_to_end(self.alpha.service.requeue(dead_letter.message.view.identifier))
        self.clock.advance(60)
        found = [UserMessageView(heard.packet) for heard in self.peers[-1].messages]
        self.assertEqual([view.hash_algorithm for view in found], [HashAlgorithm.SHA_256] * 3)
        self.assertEqual([view.security and view.security.sender_id_type for view in found], kinds)

    def test_edited_signature_of_a_dead_letter(self) -> None:
        """The signature that an operator chooses in an edited dead letter is that with which it is sent."""
        self.send(
            self.alpha,
            "DIRECT=TCP:127.0.0.4\\private$\\q",
            b"body",
            time_to_reach_queue=1,
            dead_letter=True,
            authentication_level=AuthenticationLevel.SIG_2_0,
        )
        self.clock.advance(5)
        [dead_letter] = self.run_to_end(self.alpha.service.inspection.dead_letters())
        edited = {
            "authentication_level": AuthenticationLevel.SIG_3_0,
            "hash_algorithm": HashAlgorithm.SHA_256,
        }
        self.listen(is_prompt=True)
        messages = self.alpha.service.message_administration
        [change] = self.run_to_end(
            messages.requeue(DEADLETTER, [dead_letter.message.lookup_id], edited=edited)
        )
        self.assertIsNone(change.error)
        self.clock.advance(60)
        [heard] = self.peers[-1].messages
        view = UserMessageView(heard.packet)
        self.assertEqual(view.hash_algorithm, HashAlgorithm.SHA_256)
        assert view.security is not None
        self.assertIs(version_of(self.signing, view.security, view), AuthenticationLevel.SIG_3_0)

    def test_certificate_of_a_dead_letter(self) -> None:
        """A dead letter whose certificate has expired is signed with a valid one of the same user. One whose
        certificate was replaced is sent without a signature, and its event has the reason.
        """
        for _ in range(2):
            self.send(
                self.alpha,
                "DIRECT=TCP:127.0.0.4\\private$\\q",
                b"body",
                time_to_reach_queue=1,
                dead_letter=True,
                authentication_level=AuthenticationLevel.SIG_2_0,
            )
        self.clock.advance(2 * DAY)
        service = self.alpha.service
        dead_letters = self.run_to_end(service.inspection.dead_letters())
        renewed = self.signing.create("user 0", WALL + DAY, WALL + 9 * DAY)
        self.own_stores["ALPHA"].add(KeptCertificate(renewed, SID, is_internal=False))
        service._parts.security.messages.open()
        self.listen(is_prompt=True)
        reasons = []
        for dead_letter in dead_letters:
            identifier = dead_letter.message.view.identifier
            again = self.run_to_end(service.requeue(identifier))
            [*_, event] = self.run_to_end(service.inspection.explain(identifier)).events
            reasons.append(event.reason.removeprefix(f"sent again as {again}"))
            former = self.signing.facts(self.alice.certificate)
            assert isinstance(former, CertificateFacts)
            if len(reasons) == 1:
                service.access.delete_certificate(former.fingerprint)
        self.clock.advance(60)
        found = [UserMessageView(heard.packet).security for heard in self.peers[-1].messages]
        self.assertEqual([each and each.sender_cert for each in found], [renewed.certificate, None])
        self.assertEqual(reasons[0], "")
        self.assertIn("not signed: its certificate is not stored here", reasons[1])

    def test_messages_of_others_are_not_signed(self) -> None:
        """Only what was signed here is signed again, even if its sender attached our certificate.

        A message beyond a quota becomes a dead letter, whichever peer sent it.
        """
        self.own_stores["BETA"].add(KeptCertificate(self.alice, SID, is_internal=True))
        self.beta.service._parts.security.messages.open()
        path = self.queue(self.beta, "full", quota=0)
        forged = self.fields(destination="TCP:127.0.0.3\\private$\\full", dead_letter=True)
        unsigned = forged.with_security(SID, b"", self.alice.certificate)
        self.say(unsigned)
        [dead_letter] = self.run_to_end(self.beta.service.inspection.dead_letters())
        self.run_to_end(self.beta.service.set_queue(path, {"quota": 1000}))
        self.run_to_end(self.beta.service.requeue(dead_letter.message.view.identifier))
        [view] = self.arrived(path)
        self.assertEqual(bytes(view.body), forged.body)
        self.assertFalse(message_json(view)["authenticated"])

    def test_in_the_name_of_another(self) -> None:
        """A caller that acts as bob signs with a certificate of bob's, and names no other user as sender."""
        self.own_stores["BETA"].add(KeptCertificate(self.alice, SID, is_internal=True))
        self.own_stores["BETA"].add(KeptCertificate(self.bob, OTHER_SID, is_internal=True))
        service = self.beta.service
        service._parts.security.messages.open()
        service._parts.security.messages.signer.sends_sender = True
        access = MemoryAccessControl()
        access.add(Account(OTHER_SID, "bob"))
        access.add(Account(SID, "alice"))
        descriptors = SecurityDescriptors(AccessPolicy(access, OTHER_SID), None)
        parts = service._parts
        local = LocalQueues(parts.core.performer, parts.outgoing.outbox, parts.core.events, self.beta.host)
        permissions = Permissions(parts.core.performer, local, descriptors, TrustedPeers())

        def restricted(sid: bytes) -> RestrictedQueueManager:
            return RestrictedQueueManager(
                service,
                parts.core,
                parts.outgoing.destinations,
                parts.applications,
                parts.security.messages,
                permissions,
                sid,
            )

        bob = restricted(OTHER_SID)
        level = AuthenticationLevel.SIG_2_0
        alices, bobs = (self.signing.facts(each.certificate) for each in (self.alice, self.bob))
        assert isinstance(alices, CertificateFacts) and isinstance(bobs, CertificateFacts)
        stolen = Message(authentication_level=level, sender_certificate=alices.fingerprint)
        sending = self.deferred(bob.send(self.strict, [stolen]))
        self.assertEqual(self.failureResultOf(sending, MQError).value.status, Status.MQ_ERROR_ACCESS_DENIED)
        signed = Message(authentication_level=level)
        own = attrs.evolve(signed, sender_certificate=bobs.fingerprint)
        self.run_to_end(bob.send(self.strict, [signed, own]))
        senders = [message_json(view)["sender_id"] for view in self.take(self.beta, self.strict)]
        self.assertEqual(senders, [format_sid(OTHER_SID)] * 2)
        self.run_to_end(bob.send(self.plain, [Message(), Message(sender_identifier_type=SenderIdType.SID)]))
        self.assertEqual([view.sender_id for view in self.take(self.beta, self.plain)], [None, None])
        self.run_to_end(service.send(self.plain, [Message()]))
        self.assertEqual([view.sender_id for view in self.take(self.beta, self.plain)], [format_sid(SID)])
        # The user of the server's own messages is no exception.
        self.run_to_end(permissions.change(self.strict, format_sid(SID), ["send"], is_denial=False))
        self.run_to_end(permissions.change(self.plain, format_sid(SID), ["send"], is_denial=False))
        alice = restricted(SID)
        sending = self.deferred(alice.send(self.strict, [own]))
        self.assertEqual(self.failureResultOf(sending, MQError).value.status, Status.MQ_ERROR_ACCESS_DENIED)
        self.run_to_end(alice.send(self.strict, [signed, stolen]))
        senders = [message_json(view)["sender_id"] for view in self.take(self.beta, self.strict)]
        self.assertEqual(senders, [format_sid(SID)] * 2)
        queue_manager = Message(sender_identifier_type=SenderIdType.QUEUE_MANAGER)
        self.run_to_end(alice.send(self.plain, [Message(), queue_manager]))
        self.assertEqual(
            [view.sender_id for view in self.take(self.beta, self.plain)], [format_sid(SID), None]
        )

    def test_a_third_party(self) -> None:
        """A message from another peer with ALPHA's public certificate is refused."""
        reason = self.refused(self.fields().with_security(SID, b"no signature", self.alice.certificate))
        self.assertIn("its signature is not that of its certificate", reason)


class RealSignatureTests(SendingTests):
    """The same with RSA."""

    def make_signing(self) -> ISigning:
        return LibrarySigning()

    def make_credentials(self, number: int) -> Credentials:
        return real(number)


@functools.cache
def real(number: int) -> Credentials:
    """A key and its certificate, made once."""
    return LibrarySigning().create(f"user {number}", WALL - DAY, WALL + DAY)
