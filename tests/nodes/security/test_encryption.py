"""[MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3: bodies that only the queue manager of their queue can read."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.membership.objects import QueueManagerObject
from msmq.membership.queries import equals
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.outgoing import transit_name
from msmq.security.ciphers import LibraryCiphers
from msmq.security.keys import KeyRing
from msmq.structures.algorithms import EncryptionAlgorithm, PrivacyLevel
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKeys,
)
from msmq.structures.packet.body_encryption import EncryptedBody, is_encrypted, with_encrypted_body
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.ciphers import MemoryCiphers
from msmq.transfer.security.cipher_choice import Preferences
from tests.nodes.encrypted import ADVANCED, BASE, ENHANCED, SECRET, EncryptionTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS
from tests.nodes.support import ADDRESSES


class SendingTests(EncryptionTestCase):
    """Messages are sent encrypted, and arrive in clear."""

    def test_body(self) -> None:
        """MQQB-3.1.7.1.5-01 MQQB-3.1.5.8.3-15 MQDMPR-3.1.7.1.32-07: in transit EB is set and the body is
        encrypted, then it is plain.
        """
        self.encrypted(SECRET)
        [sent] = self.wire
        self.assertTrue(is_encrypted(sent))
        self.assertNotIn(SECRET, sent.packet)
        [view] = self.take(self.beta, self.path)
        self.assertEqual(bytes(view.body), SECRET)
        self.assertFalse(is_encrypted(view))
        self.assertEqual(view.privacy_level, ADVANCED)

    def test_aes_is_preferred(self) -> None:
        """MQQB-5.1-01: for any level; the packet states the level that was used."""
        for level in (BASE, ENHANCED, ADVANCED):
            self.encrypted(SECRET, level=level)
            self.assertEqual((self.wire[-1].privacy_level, self.wire[-1].encryption_algorithm), (5, 0x6610))

    def test_three_levels(self) -> None:
        """MQQB-3.1.5.8.3-12 MQDMPR-3.1.1.12-14: each means a provider, and a key of its own decrypts it."""
        for provider, level, algorithm in (
            (BASE_PROVIDER, BASE, 0x6801),
            (ENHANCED_PROVIDER, ENHANCED, 0x6801),
            (AES_PROVIDER, ADVANCED, 0x6610),
        ):
            self.publish("BETA", provider)
            self.clock.advance(self.preferences.lifetime)
            self.encrypted(SECRET, level=level)
            self.assertEqual(
                (self.wire[-1].privacy_level, self.wire[-1].encryption_algorithm), (level, algorithm)
            )
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET] * 3)

    def test_sizes(self) -> None:
        """MQQB-3.1.7.1.5-13: 20 bytes are 32 under AES, and so MessageSize says."""
        self.encrypted(b"twenty bytes of body")
        self.assertEqual((self.wire[0].body_size, self.wire[0].allocation_body_size), (32, 32))
        [view] = self.take(self.beta, self.path)
        self.assertEqual((view.body_size, view.allocation_body_size), (20, 20))

    def test_nothing_else_is_another(self) -> None:
        """Label, extension, tag and times arrive as they were sent; an empty body as well."""
        self.encrypted(b"", label="label", extension=b"more", application_tag=7, body_type=8)
        [view] = self.take(self.beta, self.path)
        self.assertEqual(
            (view.label, view.extension, view.application_tag, view.body_type, view.body_size),
            ("label", b"more", 7, 8, 0),
        )

    def test_what_asks_for_nothing_stays_plain(self) -> None:
        """MQQB-5.1-02: neither a message without a level nor one to a direct name is encrypted."""
        self.send(self.alpha, self.name, b"plain")
        self.send(self.alpha, f"DIRECT=TCP:{ADDRESSES['BETA']}\\private$\\orders", b"direct")
        self.clock.advance(5)
        self.assertEqual([is_encrypted(view) for view in self.wire], [False, False])
        self.assertEqual(sorted(self.bodies(self.beta, self.path)), [b"direct", b"plain"])

    def test_among_others(self) -> None:
        """Plain and encrypted messages keep their order."""
        messages = [
            Message(body=b"%d" % number, privacy_level=ADVANCED if number % 2 else PrivacyLevel.NONE)
            for number in range(6)
        ]
        self.run_to_end(self.alpha.service.send(self.name, messages))
        self.clock.advance(5)
        self.assertEqual([is_encrypted(view) for view in self.wire], [False, True] * 3)
        self.assertEqual(self.bodies(self.beta, self.path), [b"0", b"1", b"2", b"3", b"4", b"5"])

    def test_recoverable_and_transactional(self) -> None:
        """They are stored in clear, survive a restart of their sender, and arrive once and in order."""
        transactional = self.queue(self.beta, "in_order", transactional=True)
        name = self.private_name(self.beta, transactional)
        self.kill("BETA")
        self.clock.advance(1)
        self.send(self.alpha, self.name, SECRET, privacy_level=ADVANCED, delivery=Delivery.RECOVERABLE)
        self.send(self.alpha, name, b"1", b"2", privacy_level=ADVANCED, transactional=True)
        self.clock.advance(1)
        [position] = self.outgoing().peek(10)
        assert position.view is not None
        self.assertEqual(bytes(position.view.body), SECRET)
        self.kill("ALPHA")
        self.revive("ALPHA")
        self.alpha = self.nodes["ALPHA"]
        self.clock.advance(1)
        self.revive("BETA")
        self.beta = self.nodes["BETA"]
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])
        self.assertEqual(self.bodies(self.beta, transactional), [b"1", b"2"])
        self.assertTrue(self.wire)
        self.assertEqual({is_encrypted(view) for view in self.wire if view.body_size}, {True})
        self.assertFalse(self.outgoing(name).positions)

    def test_several_destinations(self) -> None:
        """Each copy is encrypted for its own receiver."""
        gamma = self.queue(self.nodes["GAMMA"])
        names = f"{self.name},{self.private_name(self.nodes['GAMMA'], gamma)}"
        self.send(self.alpha, names, SECRET, privacy_level=ADVANCED)
        self.clock.advance(10)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])
        self.assertEqual(self.bodies(self.nodes["GAMMA"], gamma), [SECRET])
        self.assertNotEqual(self.key(0), self.key(1))

    def test_routing_servers_hand_on_what_they_cannot_read(self) -> None:
        """MQDMPR-3.1.1.12-53: from ALPHA over the gates to ZETA, whose key alone decrypts it."""
        path = self.queue(self.zeta)
        self.kill("EPSILON")
        self.send(self.alpha, self.private_name(self.zeta, path), SECRET, privacy_level=ADVANCED)
        self.clock.advance(5)
        transit = self.nodes["DELTA"].model.collection.find_outgoing(transit_name(IDENTIFIERS["ZETA"]))
        assert transit is not None
        [position] = transit.peek(10)
        assert position.view is not None
        self.assertTrue(is_encrypted(position.view))
        self.assertNotIn(SECRET, position.packet)
        self.assertEqual(self.ciphers["DELTA"].recovered + self.ciphers["BETA"].recovered, 0)
        self.revive("EPSILON")
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.zeta, path), [SECRET])


class CacheTests(EncryptionTestCase):
    """Keys are made, read and decrypted once, for a while."""

    def test_key_is_used_again(self) -> None:
        """MQQB-3.1.1.3-03 MQQB-3.1.7.1.5-09: two messages to one queue manager have one blob.

        MQQB-3.1.1.3-02: which its receiver decrypts once.
        """
        self.encrypted(SECRET)
        self.encrypted(b"another")
        self.assertEqual(self.key(0), self.key(1))
        self.assertEqual(self.ciphers["BETA"].recovered, 1)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET, b"another"])

    def test_key_to_send_with_ends(self) -> None:
        """MQQB-3.1.2.11-01 MQQB-3.1.7.1.5-12: after eleven minutes there is a new one."""
        self.encrypted(SECRET)
        self.clock.advance(9 * 60)
        self.encrypted(SECRET)
        self.assertEqual(self.key(0), self.key(1))
        self.clock.advance(11 * 60)
        self.encrypted(SECRET)
        self.assertNotEqual(self.key(1), self.key(2))

    def test_received_key_ends(self) -> None:
        """MQQB-3.1.2.10-01: eleven minutes after its first use, and not earlier, a blob is decrypted again.

        MQQB-3.1.5.8.3-15: its age counts from then.
        """
        packet = self.foreign()
        recovered = []
        for number, minutes in enumerate((0, 9, 1, 1), 1):
            self.clock.advance(minutes * 60)
            self.put(packet[:56] + number.to_bytes(4, "little") + packet[60:])
            recovered.append(self.ciphers["BETA"].recovered)
        self.assertEqual(recovered, [1, 1, 1, 2])
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET] * 4)

    def test_any_difference_is_a_miss(self) -> None:
        """MQQB-3.1.5.8.3-14: another sender with the same blob has it decrypted again."""
        packet = self.foreign()
        self.put(packet)
        self.put(packet)
        self.assertEqual(self.ciphers["BETA"].recovered, 1)
        self.put(packet[:16] + UUID(int=5).bytes_le + packet[32:])
        self.assertEqual(self.ciphers["BETA"].recovered, 2)

    def test_directory_is_read_once(self) -> None:
        """MQQB-3.1.3.2-15 MQQB-3.1.7.1.5-03: PublicEncryptionKeyList, at the first message."""
        assert self.directory is not None
        asked: list[Any] = []
        read = self.directory.read

        def reading(of: Any, filters: Any = (), attributes: Any = None) -> Any:
            if attributes == ("public_encryption_key_list",):
                asked.append((of, list(filters)))
            return read(of, filters, attributes)

        self.patch(self.directory, "read", reading)
        self.send(self.alpha, self.name, b"plain")
        self.clock.advance(5)
        self.assertEqual(asked, [])
        self.encrypted(SECRET)
        self.encrypted(SECRET)
        self.assertEqual(asked, [(QueueManagerObject, [equals("identifier", IDENTIFIERS["BETA"])])])

    def test_directory_takes_its_time(self) -> None:
        """Messages waiting for it return to the queue when the session ends meanwhile, and are sent on the
        next one.
        """
        assert self.directory is not None
        held: Deferred[None] = Deferred()
        read = self.directory.read

        def reading(of: Any, filters: Any = (), attributes: Any = None) -> Any:
            if attributes == ("public_encryption_key_list",) and not held.called:
                return held.addCallback(lambda _: read(of, filters, attributes))
            return read(of, filters, attributes)

        self.patch(self.directory, "read", reading)
        self.send(self.alpha, self.name, SECRET, privacy_level=ADVANCED, delivery=Delivery.RECOVERABLE)
        self.send(self.alpha, self.name, b"behind", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(self.wire, [])
        self.kill("BETA")
        self.clock.advance(1)
        held.callback(None)
        self.clock.advance(1)
        self.assertEqual(self.wire, [])
        self.assertEqual(len(self.outgoing().positions), 2)
        self.revive("BETA")
        self.beta = self.nodes["BETA"]
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET, b"behind"])

    def test_receiver_has_new_keys(self) -> None:
        """Once its key is looked at again, nothing is encrypted with the old one any more."""
        self.encrypted(SECRET)
        self.ciphers["BETA"] = MemoryCiphers("BETA reborn")
        self.kill("BETA")
        self.revive("BETA")
        self.beta = self.nodes["BETA"]
        self.clock.advance(self.preferences.lifetime)
        self.encrypted(b"anew")
        self.assertIn(b"anew", self.bodies(self.beta, self.path))


class WeakTests(EncryptionTestCase):
    """Weak ciphers, where they are allowed."""

    def use(self, provider: str, preferences: Preferences) -> None:
        """BETA has published a key of one provider, and all others are restarted with it in the directory."""
        self.preferences = preferences
        for name in ("ALPHA", "BETA"):
            self.kill(name)
            self.revive(name)
        self.alpha, self.beta = self.nodes["ALPHA"], self.nodes["BETA"]
        self.publish("BETA", provider)

    def test_every_cipher(self) -> None:
        """RC2 and RC4, of 40 and of 128 bits (MQQB-3.1.3.1-08: RC2 of the Enhanced provider has 128)."""
        for provider, preferences, level in (
            (BASE_PROVIDER, Preferences(base=EncryptionAlgorithm.RC2, weak=True), BASE),
            (BASE_PROVIDER, Preferences(weak=True), BASE),
            (ENHANCED_PROVIDER, Preferences(enhanced=EncryptionAlgorithm.RC2, weak=True), ENHANCED),
            (ENHANCED_PROVIDER, Preferences(weak=True), ENHANCED),
        ):
            self.use(provider, preferences)
            self.encrypted(SECRET, level=level)
            self.assertEqual(self.bodies(self.beta, self.path), [SECRET])
            self.assertNotIn(SECRET, self.wire[-1].packet)

    def test_padded_rc2(self) -> None:
        """MQQB-3.1.7.1.5-10 MQQB-3.1.3.1-09: 40 bits and 88 zeros, if that is wanted, are accepted."""
        short = Preferences(enhanced=EncryptionAlgorithm.RC2, sends_40_bits=True, weak=True)
        self.use(ENHANCED_PROVIDER, short)
        self.encrypted(SECRET, level=ENHANCED)
        key = self.ciphers["BETA"].recover_session_key(ENHANCED_PROVIDER, self.key()).key
        self.assertEqual((len(key), key[5:]), (16, bytes(11)))
        self.assertTrue(any(key[:5]))
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_padded_rc2_may_be_rejected(self) -> None:
        """MQQB-3.1.5.8.3-17: as 0x8007, if RejectEnhancedRC2Using40BitKeys is set; one of 128 bits is not."""
        short = Preferences(
            enhanced=EncryptionAlgorithm.RC2, sends_40_bits=True, rejects_40_bits=True, weak=True
        )
        self.use(ENHANCED_PROVIDER, short)
        self.encrypted(SECRET, level=ENHANCED)
        self.assertEqual(self.bodies(self.beta, self.path), [])
        [reported] = self.explain(self.beta, self.wire[-1])
        self.assertIn(f"NACK_BAD_ENCRYPTION from {ADDRESSES['ALPHA']}: its RC2 key has 40 bits", reported)
        self.use(ENHANCED_PROVIDER, attrs.evolve(short, sends_40_bits=False))
        self.encrypted(SECRET, level=ENHANCED)
        self.assertEqual(self.bodies(self.beta, self.path), [SECRET])

    def test_weak_ciphers_by_default(self) -> None:
        """Weak ciphers are neither sent nor accepted; the error names the setting that permits them."""
        self.use(BASE_PROVIDER, Preferences())
        self.encrypted(SECRET, level=BASE)
        self.assertEqual([view for view in self.wire if view.body_size], [])
        packet = self.foreign(level=1, algorithm=0x6801)
        self.put(packet)
        [reported] = self.explain(self.beta, UserMessageView(packet))
        self.assertIn(
            "RC4 at PrivacyLevel 1 (Microsoft Base Cryptographic Provider v1.0), which [security]"
            " weak_algorithms = true would allow",
            reported,
        )


class RealCiphersTests(EncryptionTestCase):
    """The same with RSA, AES and RC4 of the libraries."""

    def setUp(self) -> None:
        self.real = {name: LibraryCiphers(real_keys(name)) for name in ("ALPHA", "BETA")}
        super().setUp()

    def more_options(self, name: str) -> dict[str, Any]:
        real = self.real.get(name)
        return {} if real is None else {"ciphers": real}

    def test_every_level(self) -> None:
        """Bodies of any length, with the key of each provider."""
        assert self.directory is not None
        keys = self.real["BETA"].encryption_keys.keys
        bodies = [b"", b"x", bytes(range(256)) * 4, bytes(1_000_000)]
        for key, level in zip(keys, (BASE, ENHANCED, ADVANCED), strict=True):
            written = QueueManagerObject(
                identifier=IDENTIFIERS["BETA"],
                computer_name="BETA",
                public_encryption_key_list=MqdsPublicKeys((key,)),
            )
            self.successResultOf(self.directory.write(written, ("public_encryption_key_list",)))
            self.clock.advance(self.preferences.lifetime)
            self.encrypted(*bodies, level=level)
            self.assertEqual(self.bodies(self.beta, self.path), bodies)
            self.assertEqual(self.wire[-1].privacy_level, level)

    def test_for_another(self) -> None:
        """A message encrypted for another receiver is refused."""
        public_key = self.real["ALPHA"].encryption_keys.keys[2].key
        real = self.real["ALPHA"]
        made = real.make_session_key(0x6610, 256, 256, public_key)
        body = EncryptedBody(real.encrypt(0x6610, made.key, SECRET), 5, 0x6610, made.encrypted)
        packet = with_encrypted_body(UserMessageView(self.plain()), body)
        self.put(packet)
        self.assertEqual(self.bodies(self.beta, self.path), [])
        [reported] = self.explain(self.beta, UserMessageView(packet))
        self.assertIn("NACK_BAD_ENCRYPTION", reported)


@cache
def real_keys(name: str) -> KeyRing:
    """Keys that are made once, since that takes its time."""
    return KeyRing(None, weak=True, bits=1024)
