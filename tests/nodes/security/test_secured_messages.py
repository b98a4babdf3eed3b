"""Messages that are signed and encrypted, past queue managers that can do neither."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.decoding.message_json import message_json
from msmq.interfaces.security.signing import KeptCertificate
from msmq.manager.securing.message_security import SecurityProviders
from msmq.membership.objects import UserObject
from msmq.queues.arriving.message import Delivery
from msmq.queues.outgoing import transit_name
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.algorithms import (
    AuthenticationLevel,
    EncryptionAlgorithm,
    HashAlgorithm,
    PrivacyLevel,
)
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.clock import START
from msmq.testing.contracts.signing import SID
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from tests.nodes.encrypted import ADVANCED, SECRET, EncryptionTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS
from tests.nodes.support import Node

DAY = 86400.0


class SecuredTestCase(EncryptionTestCase):
    """As for encryption, and ALPHA has a certificate that the directory knows."""

    def setUp(self) -> None:
        self.signing = MemorySigning()
        self.alice = self.signing.create("alice", START.wall - DAY, START.wall + DAY)
        super().setUp()
        entry = MqUserSignCert.of(self.alice.certificate, UUID(int=7))
        assert self.directory is not None
        self.directory.add(
            UserObject(
                identifier=UUID(int=8),
                security_identifier=SID,
                certificate_digest_list=(entry.digest,),
                certificates=MqUserSignCerts((entry,)),
            )
        )

    def member(self, name: str) -> Node:
        ciphers = self.ciphers.setdefault(name, MemoryCiphers(name, weak=self.weak))
        store = MemoryCertificateStore()
        if name == "ALPHA":
            store.add(KeptCertificate(self.alice, SID, is_internal=True))
        security = SecurityProviders(signing=self.signing, certificates=store, sender=SID)
        node = Node(
            self.network,
            self.clock,
            name,
            IDENTIFIERS[name],
            self.settings,
            self.disks.setdefault(name, MemoryMessageStore(durable=True)),
            directory=self.directory,
            options={"ciphers": ciphers, "encryption": self.preferences, "providers": security},
        )
        if name == "ALPHA":
            node.factory.protocol = self.recording
        return node

    def secured(self, name: str, *bodies: bytes, **kwargs: Any) -> None:
        """ALPHA signs and encrypts, and it arrives."""
        kwargs = {
            "privacy_level": ADVANCED,
            "authentication_level": AuthenticationLevel.SIG_2_0,
            **kwargs,
        }
        self.send(self.alpha, name, *bodies, **kwargs)
        self.clock.advance(5)


class SecuredTests(SecuredTestCase):
    """Signed first and encrypted then; decrypted first and verified then."""

    def check(self, path: str, *bodies: bytes) -> list[UserMessageView]:
        """They arrived authenticated and in clear, and left as neither their clear body nor its signer."""
        for sent in self.wire:
            self.assertNotIn(SECRET, sent.packet)
        found = self.take(self.beta, path)
        self.assertEqual([bytes(view.body) for view in found], list(bodies))
        for view in found:
            record = message_json(view)
            self.assertEqual((record["authenticated"], record["sender_id"]), (True, "S-1-5-21-1-2-3-1001"))
        return found

    def test_signed_and_encrypted(self) -> None:
        """Messages of every kind and every signature arrive (MQQB-3.1.5.8.3-05, MQDMPR-5.1-01)."""
        transactional = self.queue(
            self.beta, "payments", transactional=True, authenticate=True, privacy="body"
        )
        to_payments = self.private_name(self.beta, transactional)
        for level in (AuthenticationLevel.SIG_1_0, AuthenticationLevel.SIG_2_0, AuthenticationLevel.SIG_3_0):
            self.secured(self.name, SECRET, authentication_level=level)
            self.secured(self.name, SECRET + b"!", authentication_level=level, delivery=Delivery.RECOVERABLE)
            found = self.check(self.path, SECRET, SECRET + b"!")
            self.assertEqual({view.authentication_level for view in found}, {level})
            self.assertEqual({view.hash_algorithm for view in found}, {HashAlgorithm.SHA_512})
            self.assertEqual({view.encryption_algorithm for view in found}, {EncryptionAlgorithm.AES_256})
            bodies = [SECRET + b"%d" % number for number in range(5)]
            self.secured(to_payments, *bodies, authentication_level=level, transactional=True)
            self.check(transactional, *bodies)

    def test_messages_that_a_queue_accepts(self) -> None:
        """Each privacy of a queue with each kind of message (MQDMPR-3.1.1.2-11)."""
        for privacy, taken in (("none", [False]), ("optional", [False, True]), ("body", [True])):
            path = self.queue(self.beta, privacy, privacy=privacy)
            name = self.private_name(self.beta, path)
            for is_encrypted in (False, True):
                level = ADVANCED if is_encrypted else PrivacyLevel.NONE
                self.secured(name, SECRET, privacy_level=level)
                found = self.take(self.beta, path)
                self.assertEqual(len(found), is_encrypted in taken, (privacy, is_encrypted))

    def test_past_others(self) -> None:
        """A forwarding queue manager verifies no signature, and trusts none; that of the queue verifies it.

        It does so although this queue accepts messages without a signature as well (MQQB-3.1.5.8.3-01).
        """
        path = self.queue(self.zeta)
        self.kill("EPSILON")
        assert self.directory is not None
        name = self.private_name(self.zeta, path)
        self.secured(name, SECRET, privacy_level=PrivacyLevel.NONE)
        # The same again, with a signature that is none and a word of its sender that it was verified.
        [sent] = self.wire[-1:]
        forged = bytearray(sent.packet)
        forged[56] ^= 1
        forged[sent.security_offset + 1] |= 0x03
        forged[sent.security_offset + 16 + len(SID) + 3 & ~3] ^= 1
        view = UserMessageView(bytes(forged))
        gate = self.nodes["DELTA"]
        transit = gate.model.collection.find_outgoing(transit_name(IDENTIFIERS["ZETA"]))
        assert transit is not None
        [position] = transit.peek(10)
        assert position.view is not None
        self.assertEqual(position.view.security, sent.security)
        self.put_packet(self.alpha, name, view.packet)
        self.clock.advance(5)
        positions = transit.peek(10)
        self.assertEqual(len(positions), 2)
        for position in positions:
            assert position.view is not None
            self.assertIs(position.view.authentication_level, AuthenticationLevel.NONE)
        self.revive("EPSILON")
        self.clock.advance(120)
        [arrived] = self.take(self.zeta, path)
        self.assertIs(arrived.authentication_level, AuthenticationLevel.SIG_2_0)
        reported = self.run_to_end(self.zeta.service.inspection.explain(view.identifier))
        self.assertIn("NACK_BAD_SIGNATURE", " ".join(event.reason for event in reported.events))

    def test_expired_messages(self) -> None:
        """An expired message is neither encrypted nor sent (MQQB-3.1.7.1-04)."""
        self.kill("BETA")
        self.clock.advance(5)
        self.secured(self.name, SECRET, time_to_reach_queue=3, dead_letter=True)
        self.clock.advance(5)
        self.revive("BETA")
        self.clock.advance(120)
        self.assertEqual(self.wire, [])
        [dead_letter] = self.run_to_end(self.alpha.service.inspection.dead_letters())
        self.assertEqual(dead_letter.message.view.message_class, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
