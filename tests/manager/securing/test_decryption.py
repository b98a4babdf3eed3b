"""Encrypted messages with any security header are accepted in clear or refused."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.session import ISession
from msmq.manager.securing.decryption import Decryption
from msmq.manager.securing.inspection import Accepted, Refused
from msmq.queues.queue import Queue
from msmq.security.ciphers import _padded, _rc2, _stream
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER
from msmq.structures.packet.body_encryption import EncryptedBody, is_encrypted, with_encrypted_body
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.clock import ManualClock
from msmq.transfer.security.cipher_choice import Preferences
from tests.builders import user_packet
from tests.security.library_ciphers import ciphers

BODY = b"a body that is longer than two blocks of any cipher"
NO_SESSION, NO_QUEUE = cast(ISession, None), cast(Queue, None)


@cache
def blob() -> tuple[bytes, bytes]:
    """A session key for AES-256, and its blob."""
    key = next(key.key for key in ciphers().encryption_keys.keys if key.provider_name == AES_PROVIDER)
    made = ciphers().make_session_key(0x6610, 256, 256, key)
    return made.key, made.encrypted


def message(body: bytes, level: int, algorithm: int, key: bytes) -> UserMessageView:
    """A packet that says this of its body."""
    return UserMessageView(
        with_encrypted_body(UserMessageView(user_packet(b"x")), EncryptedBody(body, level, algorithm, key))
    )


def with_body_type(view: UserMessageView, body_type: int) -> UserMessageView:
    """The packet with another BodyType."""
    at = view.properties_offset + 24
    return UserMessageView(view.packet[:at] + body_type.to_bytes(4, "little") + view.packet[at + 4 :])


def outcome(view: UserMessageView, decryption: Decryption | None = None) -> Accepted | Refused:
    """The result of the step."""
    step = decryption or Decryption(ManualClock().reactor, ManualClock(), ciphers(), Preferences(weak=True))
    return step.check(NO_SESSION, NO_QUEUE, Accepted(view, view.security))


levels = st.sampled_from([0, 1, 2, 3, 5, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF)
algorithms = st.sampled_from([0x6602, 0x6801, 0x660E, 0x660F, 0x6610, 0x6601]) | st.integers(0, 0xFFFFFFFF)
sizes = st.sampled_from([64, 128, 256])


@st.composite
def blobs(draw: st.DrawFn) -> bytes:
    """EncryptionKeys: valid ones, changed ones, ones with a valid head, and random bytes."""
    _, right = blob()
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return right
    if kind == 1:
        touched = bytearray(right)
        touched[draw(st.integers(0, len(right) - 1))] ^= draw(st.integers(1, 255))
        return bytes(touched)
    if kind == 2:
        size = draw(sizes)
        return (
            right[:4]
            + draw(algorithms).to_bytes(4, "little")
            + right[8:12]
            + draw(st.binary(min_size=size, max_size=size))
        )
    return draw(st.binary(min_size=1, max_size=200))


class DecryptionTests(SynchronousTestCase):
    """L{Decryption}."""

    @settings(deadline=None)
    @given(st.binary(max_size=100), levels, algorithms, blobs())
    def test_any_message(self, body: bytes, level: int, algorithm: int, key: bytes) -> None:
        """Accepted in clear, or refused as the documents say, with a reason."""
        found = outcome(message(body, level, algorithm, key))
        if isinstance(found, Refused):
            self.assertIs(found.message_class, MessageClass.NACK_BAD_ENCRYPTION)
            self.assertGreater(len(found.reason), 10)
        else:
            self.assertFalse(is_encrypted(found.view))
            self.assertEqual(found.security, found.view.security)

    def test_right_one(self) -> None:
        """It is accepted, and only as it is: every bit of the last two blocks counts."""
        key, encrypted = blob()
        text = ciphers().encrypt(0x6610, key, BODY)
        found = outcome(message(text, 5, 0x6610, encrypted))
        assert isinstance(found, Accepted)
        self.assertEqual(bytes(found.view.body), BODY)
        for bit in range(8):
            touched = text[:-1] + bytes((text[-1] ^ 1 << bit,))
            changed = outcome(message(touched, 5, 0x6610, encrypted))
            self.assertTrue(isinstance(changed, Refused) or bytes(changed.view.body) != BODY)

    def test_aes_at_lower_privacy_levels(self) -> None:
        """A body in AES is decrypted with the key for AES at each PrivacyLevel, without weak ciphers."""
        key, encrypted = blob()
        text = ciphers().encrypt(0x6610, key, BODY)
        step = Decryption(ManualClock().reactor, ManualClock(), ciphers(), Preferences())
        for level in (1, 3, 5):
            found = outcome(message(text, level, 0x6610, encrypted), step)
            assert isinstance(found, Accepted), found
            self.assertEqual(bytes(found.view.body), BODY)
            self.assertEqual(found.view.privacy_level, level)

    def test_keys_of_40_bits_without_a_signature(self) -> None:
        """RC4 and RC2 with and without salt are decrypted; text that neither variant gives is refused."""
        base = next(key.key for key in ciphers().encryption_keys.keys if key.provider_name == BASE_PROVIDER)
        text = "some text".encode("utf-16-le")
        for algorithm in (0x6801, 0x6602):
            made = ciphers().make_session_key(algorithm, 40, 40, base)
            salted = ciphers().encrypt(algorithm, made.key, text)
            plain = (
                _stream(made.key, text)
                if algorithm == 0x6801
                else bytes(_rc2(made.key, 40).encrypt(_padded(text, 64)))
            )
            for body in (salted, plain):
                view = with_body_type(message(body, 1, algorithm, made.encrypted), 8)
                found = outcome(view)
                assert isinstance(found, Accepted), found
                self.assertEqual(bytes(found.view.body), text)
        made = ciphers().make_session_key(0x6801, 40, 40, base)
        view = with_body_type(message(b"an odd body", 1, 0x6801, made.encrypted), 8)
        found = outcome(view)
        assert isinstance(found, Refused)
        self.assertIs(found.message_class, MessageClass.NACK_BAD_ENCRYPTION)
        self.assertIn("with or without salt", found.reason)

    def test_an_unencrypted_message(self) -> None:
        """A message without encryption passes unchanged, with any PrivacyLevel."""
        view = UserMessageView(user_packet(BODY))
        given = Accepted(view, None)
        step = Decryption(ManualClock().reactor, ManualClock(), ciphers(), Preferences())
        self.assertIs(step.check(NO_SESSION, NO_QUEUE, given), given)
        self.assertFalse(step.guards(NO_SESSION, NO_QUEUE))

    def test_what_is_remembered(self) -> None:
        """A key is remembered once it is known, be the body right or wrong; what is not a key is not."""
        made = MemoryCiphers("beta")
        made.open()
        clock = ManualClock()
        step = Decryption(clock.reactor, clock, made, Preferences(weak=True))
        key: Any = made.make_session_key(0x6610, 256, 256, made.encryption_keys.keys[2].key)
        spoilt = key.encrypted[:-1] + bytes((key.encrypted[-1] ^ 1,))
        for number in range(1, 4):
            self.assertIsInstance(outcome(message(b"rubbish", 5, 0x6610, spoilt), step), Refused)
            self.assertEqual(made.recovered, number)
            self.assertEqual(clock.reactor.getDelayedCalls(), [])
        wrong = message(b"rubbish", 5, 0x6610, key.encrypted)
        right = message(made.encrypt(0x6610, key.key, BODY), 5, 0x6610, key.encrypted)
        for view, expected in ((wrong, Refused), (right, Accepted)) * 2:
            self.assertIsInstance(outcome(view, step), expected)
            self.assertEqual(made.recovered, 4)
        self.assertEqual(len(clock.reactor.getDelayedCalls()), 1)

    def test_cipher_of_the_blob(self) -> None:
        """The blob and the packet have to name the same."""
        made = MemoryCiphers("beta")
        made.open()
        step = Decryption(ManualClock().reactor, ManualClock(), made, Preferences(weak=True))
        key: Any = made.make_session_key(0x660E, 128, 128, made.encryption_keys.keys[2].key)
        found = outcome(message(bytes(16), 5, 0x6610, key.encrypted), step)
        assert isinstance(found, Refused)
        self.assertIn("AES_128", found.reason)
        self.assertIn("AES_256", found.reason)
