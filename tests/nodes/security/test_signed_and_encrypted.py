"""Messages that are signed and encrypted: proven, in clear, once and in order; or not taken, and why."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.interfaces.security.signing import Credentials, KeptCertificate
from msmq.manager.securing.message_security import SecurityProviders
from msmq.membership.objects import UserObject
from msmq.queues.arriving.message import Message
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.packet.body_encryption import EncryptedBody, is_encrypted, with_encrypted_body
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from tests.nodes.encrypted import ADVANCED, SECRET, EncryptionTestCase

DAY = 86400.0
LEVELS = (AuthenticationLevel.SIG_1_0, AuthenticationLevel.SIG_2_0, AuthenticationLevel.SIG_3_0)


class SignedAndEncryptedTests(EncryptionTestCase):
    """ALPHA and DELTA send to a queue of BETA that demands both."""

    def setUp(self) -> None:
        self.signing = MemorySigning()
        self.certificates: dict[str, MemoryCertificateStore] = {}
        self.senders = {"ALPHA": SID, "DELTA": OTHER_SID}
        super().setUp()
        self.path = self.queue(self.beta, "strict", transactional=True, authenticate=True, privacy="body")
        self.name = self.private_name(self.beta, self.path)
        now = self.clock.now().wall
        self.alice = self.signing.create("alice", now - DAY, now + DAY)
        self.mallory = self.signing.create("mallory", now - DAY, now + DAY)
        self.register(SID, self.alice)
        for name, made in (("ALPHA", self.alice), ("DELTA", self.mallory)):
            self.certificates[name].add(KeptCertificate(made, self.senders[name], is_internal=True))
            self.nodes[name].service._parts.security.messages.open()

    def more_options(self, name: str) -> dict[str, Any]:
        store = self.certificates.setdefault(name, MemoryCertificateStore())
        sender = self.senders.get(name, SID)
        return {"providers": SecurityProviders(signing=self.signing, certificates=store, sender=sender)}

    def register(self, sid: bytes, made: Credentials) -> None:
        """Have the directory know the certificate of a user."""
        entry = MqUserSignCert.of(made.certificate, UUID(int=7))
        assert self.directory is not None
        self.directory.add(
            UserObject(
                identifier=UUID(int=0xA11CE),
                security_identifier=sid,
                certificate_digest_list=(entry.digest,),
                certificates=MqUserSignCerts((entry,)),
            )
        )

    def message(self, body: bytes, level: AuthenticationLevel = AuthenticationLevel.SIG_2_0) -> Message:
        return Message(body=body, transactional=True, authentication_level=level, privacy_level=ADVANCED)

    def test_arrives_proven_and_in_clear(self) -> None:
        """MQQB-3.1.5.8.3-05: the signature is of the clear body, so it is decrypted before it is verified.

        MQDMPR-5.1-01: SHA-512 and AES-256, with keys of a library, are what two of ours use.
        """
        for number, level in enumerate(LEVELS):
            self.run_to_end(self.alpha.service.send(self.name, [self.message(b"%d" % number, level)]))
        self.clock.advance(30)
        views = self.take(self.beta, self.path)
        self.assertEqual([bytes(view.body) for view in views], [b"0", b"1", b"2"])
        self.assertEqual([view.authentication_level for view in views], list(LEVELS))
        sent = [view for view in self.wire if view.body_size]
        self.assertEqual({is_encrypted(view) for view in sent}, {True})
        self.assertEqual(
            {(view.hash_algorithm, view.encryption_algorithm) for view in sent}, {(0x800E, 0x6610)}
        )
        self.assertEqual({view.authentication_level for view in sent}, {AuthenticationLevel.NONE})

    def test_what_the_queue_demands(self) -> None:
        """Signed but in clear is not enough, nor is encrypted but unsigned; both sides log the reason."""
        for message, why in (
            (Message(body=SECRET, transactional=True, privacy_level=ADVANCED), "not signed"),
            (
                Message(body=SECRET, transactional=True, authentication_level=AuthenticationLevel.SIG_2_0),
                "in clear",
            ),
        ):
            [identifier] = self.run_to_end(self.alpha.service.send(self.name, [message]))
            self.clock.advance(30)
            self.assertEqual(self.take(self.beta, self.path), [])
            there = self.run_to_end(self.beta.service.inspection.explain(identifier))
            self.assertIn(why, there.events[-1].reason)
            here = self.run_to_end(self.alpha.service.inspection.explain(identifier))
            self.assertTrue(here.events, "the sender can tell nothing")

    def test_third_party(self) -> None:
        """A sender whose certificate the directory does not have is refused, though it could encrypt."""
        [identifier] = self.run_to_end(self.nodes["DELTA"].service.send(self.name, [self.message(SECRET)]))
        self.clock.advance(60)
        self.assertEqual(self.take(self.beta, self.path), [])
        there = self.run_to_end(self.beta.service.inspection.explain(identifier))
        self.assertIn("NACK_BAD_SIGNATURE", there.events[-1].reason)
        here = self.run_to_end(self.nodes["DELTA"].service.inspection.explain(identifier))
        self.assertIn(0x8006, [event.message_class for event in here.events])

    def test_another_body_under_the_same_key(self) -> None:
        """Knowledge of the receiver's key, which is public, does not suffice to change what was signed."""
        self.run_to_end(self.alpha.service.send(self.name, [self.message(SECRET)]))
        self.clock.advance(30)
        self.take(self.beta, self.path)
        sent = next(view for view in self.wire if view.body_size)
        ciphers = self.ciphers["DELTA"]
        made = ciphers.make_session_key(0x6610, 256, 256, self.ciphers["BETA"].encryption_keys.keys[2].key)
        forged = EncryptedBody(ciphers.encrypt(0x6610, made.key, b"forged"), 5, 0x6610, made.encrypted)
        packet = bytearray(with_encrypted_body(sent, forged))
        view = UserMessageView(bytes(packet))
        # As the next of its sequence, and another message.
        packet[56:60] = (0x777).to_bytes(4, "little")
        place = view.transaction_offset
        packet[place + 12 : place + 20] = (2).to_bytes(4, "little") + (1).to_bytes(4, "little")
        self.put(bytes(packet))
        self.assertEqual(self.take(self.beta, self.path), [])
        [reported] = self.explain(self.beta, UserMessageView(bytes(packet)))
        self.assertIn("NACK_BAD_SIGNATURE", reported)
