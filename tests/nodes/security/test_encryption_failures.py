"""[MS-MQQB] 3.1.7.1.5.1 what cannot be encrypted; and the keys that the directory holds."""

from __future__ import annotations

from typing import Any

from msmq.manager.securing.encryption import FAILURE_HOLDS
from msmq.membership.objects import QueueManagerObject
from msmq.membership.queries import equals
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.algorithms import PrivacyLevel
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER, MqdsPublicKeys
from msmq.structures.management import ConnectionStatus
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.body_encryption import is_encrypted
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.testing.ciphers import MemoryCiphers
from tests.builders import user_packet
from tests.nodes.encrypted import ADVANCED, BASE, DEADLETTER, DEADXACT, SECRET, EncryptionTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS
from tests.nodes.support import ADDRESSES


class FailingTests(EncryptionTestCase):
    """[MS-MQQB] 3.1.7.1.5.1: what cannot be encrypted is not sent, and leaves a trace."""

    def failed(self, level: PrivacyLevel = ADVANCED, **kwargs: Any) -> tuple[UserMessageView | None, str]:
        """A message that ALPHA cannot encrypt: its dead letter, and the reason in the log."""
        [identifier] = self.run_to_end(
            self.alpha.service.send(self.name, [Message(body=SECRET, privacy_level=level, **kwargs)])
        )
        self.clock.advance(10)
        self.assertEqual(self.wire, [])
        self.assertEqual(self.bodies(self.beta, self.path), [])
        self.assertFalse(self.outgoing().positions)
        explanation = self.run_to_end(self.alpha.service.inspection.explain(identifier))
        [event] = [event for event in explanation.events if event.event == "unencrypted"]
        self.assertEqual(event.message_class, 0x8008)
        queue = DEADXACT if kwargs.get("transactional") else DEADLETTER
        dead_letters = self.take(self.alpha, queue)
        return (dead_letters[0] if dead_letters else None), event.reason

    def test_receiver_without_a_key(self) -> None:
        """MQQB-3.1.7.1.5.1-01 MQQB-3.1.7.1.5.1-03: nothing is sent, and the connection history says why."""
        self.publish("BETA")
        dead_letter, reason = self.failed()
        self.assertIsNone(dead_letter)
        self.assertIn(AES_PROVIDER, reason)
        entry = self.outgoing().history[-1]
        self.assertEqual(entry.status, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE)
        self.assertEqual(entry.status.document_name, "CertificateValidationFailure")
        self.assertEqual(entry.time, self.clock.now().unix_seconds - 10)
        self.assertEqual(Status(entry.error), Status.MQ_ERROR_PUBLIC_KEY_NOT_FOUND)
        self.assertEqual(entry.addresses, (ADDRESSES["BETA"],))

    def test_dead_letters_on_request(self) -> None:
        """MQQB-3.1.7.1.5.1-02: if its sender asks for one, of an express and of a recoverable message."""
        self.publish("BETA", BASE_PROVIDER)
        dead_letter, reason = self.failed(dead_letter=True)
        assert dead_letter is not None
        self.assertEqual((bytes(dead_letter.body), dead_letter.message_class), (SECRET, 0x8008))
        self.assertIn("kept as a dead letter", reason)
        dead_letter, _ = self.failed(dead_letter=True, delivery=Delivery.RECOVERABLE)
        assert dead_letter is not None
        self.assertEqual((bytes(dead_letter.body), dead_letter.message_class), (SECRET, 0x8008))

    def test_transactional(self) -> None:
        """MQQB-3.1.7.1.5.1-02: it has a dead-letter queue of its own; the messages after it arrive."""
        transactional = self.queue(self.beta, "in_order", transactional=True)
        self.name = self.private_name(self.beta, transactional)
        self.publish("BETA")
        dead_letter, _ = self.failed(dead_letter=True, transactional=True)
        assert dead_letter is not None
        self.assertEqual(bytes(dead_letter.body), SECRET)
        self.send(self.alpha, self.name, b"next", transactional=True)
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, transactional), [b"next"])

    def test_nack(self) -> None:
        """MQDMPR-3.1.1.12-11: NackCouldNotEncrypt, 0x8008, if negative acknowledgements were requested."""
        self.publish("BETA")
        admin = self.queue(self.alpha, "admin")
        self.failed(
            acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name(self.private_name(self.alpha, admin)),
        )
        answers = self.take(self.alpha, admin)
        self.assertEqual([(view.message_class, bytes(view.body)) for view in answers], [(0x8008, b"")])

    def test_directory_is_away(self) -> None:
        """MQQB-3.1.7.1.5-03: the key is unknown meanwhile; the directory is queried again a little later."""
        assert self.directory is not None
        self.directory.is_connected = False
        dead_letter, reason = self.failed(dead_letter=True)
        self.assertIsNotNone(dead_letter)
        self.assertIn("the directory has no public key", reason)
        self.directory.is_connected = True
        self.clock.advance(FAILURE_HOLDS)
        self.encrypted(SECRET)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_others_go_on(self) -> None:
        """Plain messages leave, in their order."""
        self.publish("BETA")
        messages = [
            Message(body=b"%d" % number, privacy_level=ADVANCED if number % 2 else PrivacyLevel.NONE)
            for number in range(6)
        ]
        self.run_to_end(self.alpha.service.send(self.name, messages))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, self.path), [b"0", b"2", b"4"])

    def test_requeue(self) -> None:
        """A dead letter that is sent again asks for the same encryption."""
        self.publish("BETA")
        [identifier] = self.run_to_end(
            self.alpha.service.send(
                self.name, [Message(body=SECRET, privacy_level=ADVANCED, dead_letter=True)]
            )
        )
        self.clock.advance(5)
        self.publish("BETA", AES_PROVIDER)
        self.clock.advance(self.preferences.lifetime)
        self.run_to_end(self.alpha.service.requeue(identifier))
        self.clock.advance(5)
        self.assertEqual([is_encrypted(view) for view in self.wire], [True])
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_direct_names_are_refused(self) -> None:
        """MQQB-5.1-02: the send fails at once; a local queue gets the message as it is, since it stays
        here.
        """
        name = f"DIRECT=TCP:{ADDRESSES['BETA']}\\private$\\orders"
        for names in (name, f"{self.name},{name}"):
            failure = self.failureResultOf(
                self.deferred(self.alpha.service.send(names, [Message(body=SECRET, privacy_level=ADVANCED)])),
                MQError,
            )
            self.assertEqual(failure.value.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
            self.assertIn("direct name", failure.value.detail)
        own = self.queue(self.alpha)
        self.send(
            self.alpha, f"DIRECT=OS:ALPHA\\private$\\{own.rpartition(chr(92))[2]}", SECRET, privacy_level=BASE
        )
        self.assertEqual(self.bodies(self.alpha, own), [SECRET])

    def test_direct_name_in_a_packet(self) -> None:
        """MQQB-3.1.7.1.5-02: however it got there, it is not sent; JN makes a dead letter."""
        name = f"DIRECT=TCP:{ADDRESSES['BETA']}\\private$\\orders"
        packet = bytearray(
            user_packet(
                SECRET,
                destination=name.removeprefix("DIRECT="),
                user_flags=0x0100,
                source=IDENTIFIERS["ALPHA"],
            )
        )
        offset = UserMessageView(bytes(packet)).properties_offset + 40
        packet[offset] = ADVANCED
        self.put_packet(self.alpha, name, bytes(packet))
        self.clock.advance(5)
        self.assertEqual(self.wire, [])
        [dead_letter] = self.take(self.alpha, DEADLETTER)
        self.assertEqual((bytes(dead_letter.body), dead_letter.message_class), (SECRET, 0x8008))
        [reported] = self.explain(self.alpha, dead_letter)
        self.assertIn("only messages to PUBLIC= and PRIVATE= names can be encrypted", reported)
        entry = self.outgoing(name).history[-1]
        self.assertEqual(entry.status, ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE)

    def test_too_large(self) -> None:
        """A packet of nearly 4 MiB cannot hold a key in addition."""
        body = bytes(4 * 1024 * 1024 - 300)
        self.send(self.alpha, self.name, body, privacy_level=ADVANCED, dead_letter=True)
        self.clock.advance(10)
        self.assertEqual(self.wire, [])
        [dead_letter] = self.take(self.alpha, DEADLETTER)
        [reported] = self.explain(self.alpha, dead_letter)
        self.assertIn("too large", reported)


class PublishingTests(EncryptionTestCase):
    """Keys of a queue manager in the directory."""

    def published(self, name: str) -> tuple[MqdsPublicKeys, MqdsPublicKeys]:
        """Both lists."""
        assert self.directory is not None
        entry = self.successResultOf(
            self.directory.read(QueueManagerObject, [equals("identifier", IDENTIFIERS[name])])
        )
        return entry["public_encryption_key_list"], entry["public_signing_key_list"]

    def test_keys_are_published(self) -> None:
        """MQMQ-2.2.20.6-19: at the first start, and whenever they are others (MQDMPR-3.1.1.1-22)."""
        ciphers = self.ciphers["GAMMA"]
        self.assertEqual(self.published("GAMMA"), (ciphers.encryption_keys, ciphers.signing_keys))
        other = self.ciphers["GAMMA"] = MemoryCiphers("GAMMA reborn")
        self.kill("GAMMA")
        self.revive("GAMMA")
        self.assertEqual(self.published("GAMMA"), (other.encryption_keys, other.signing_keys))
        self.assertNotEqual(other.encryption_keys, ciphers.encryption_keys)

    def test_directory_is_away_at_the_start(self) -> None:
        """The next start publishes them."""
        assert self.directory is not None
        other = self.ciphers["GAMMA"] = MemoryCiphers("GAMMA reborn")
        self.kill("GAMMA")
        self.directory.is_connected = False
        self.revive("GAMMA")
        self.kill("GAMMA")
        self.directory.is_connected = True
        self.assertNotEqual(self.published("GAMMA")[0], other.encryption_keys)
        self.revive("GAMMA")
        self.assertEqual(self.published("GAMMA")[0], other.encryption_keys)
