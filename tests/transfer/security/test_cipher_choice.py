"""[MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3: what a body is encrypted with, and what is decrypted."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.algorithms import EncryptionAlgorithm, PrivacyLevel
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)
from msmq.transfer.security.cipher_choice import (
    CannotEncryptError,
    CipherChoice,
    Preferences,
    choose,
    is_padded,
    key_fault,
    public_key_of,
    why_not_decrypted,
)

BASE, ENHANCED, ADVANCED = PrivacyLevel.BASE, PrivacyLevel.ENHANCED, PrivacyLevel.ADVANCED
BITS = {BASE_PROVIDER: 512, ENHANCED_PROVIDER: 1024, AES_PROVIDER: 1024}
WEAK = Preferences(weak=True)


def keys(*providers: str) -> MqdsPublicKeys:
    """A list with a key of each of these providers."""
    return MqdsPublicKeys(
        tuple(
            MqdsPublicKey(
                provider,
                ProviderType.PROV_RSA_FULL,
                PublicKeyBlob((1 << BITS[provider]) - 1 - number, 65537),
            )
            for number, provider in enumerate(providers)
        )
    )


ALL = keys(BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER)


class ChoosingTests(SynchronousTestCase):
    """The best provider for which there is a key."""

    def chosen(
        self, published: MqdsPublicKeys, level: int, preferences: Preferences = WEAK
    ) -> tuple[str, int, int, int]:
        """Provider, level, algorithm and length of what is chosen."""
        choice = choose(published, level, preferences)
        return choice.provider_name, choice.level, choice.algorithm, choice.key_bits

    def refused(
        self, published: MqdsPublicKeys, level: int, preferences: Preferences = WEAK
    ) -> CannotEncryptError:
        """Why nothing is chosen."""
        with self.assertRaises(CannotEncryptError) as caught:
            choose(published, level, preferences)
        return CannotEncryptError(*caught.exception.args)

    def test_defaults(self) -> None:
        """MQQB-3.1.3.1-07: AES-256 with its provider, RC4 with the two others."""
        self.assertEqual(self.chosen(ALL, ADVANCED), (AES_PROVIDER, 5, 0x6610, 256))
        self.assertEqual(self.chosen(keys(ENHANCED_PROVIDER), ENHANCED), (ENHANCED_PROVIDER, 3, 0x6801, 128))
        self.assertEqual(self.chosen(keys(BASE_PROVIDER), BASE), (BASE_PROVIDER, 1, 0x6801, 40))

    def test_level_is_that_of_the_provider(self) -> None:
        """MQQB-3.1.7.1.5-05: with keys of Base and Enhanced it is Enhanced, and PrivacyLevel is 3."""
        self.assertEqual(
            self.chosen(keys(BASE_PROVIDER, ENHANCED_PROVIDER), BASE), (ENHANCED_PROVIDER, 3, 0x6801, 128)
        )
        for level in (BASE, ENHANCED, ADVANCED):
            self.assertEqual(self.chosen(ALL, level)[:2], (AES_PROVIDER, 5))
        self.assertIn("no key", str(self.refused(keys(), BASE)))

    def test_without_a_key_for_aes(self) -> None:
        """MQQB-3.1.7.1.5-04: of the two keys of an old queue manager the Enhanced one is taken."""
        self.assertEqual(self.chosen(keys(ENHANCED_PROVIDER, BASE_PROVIDER), ENHANCED)[0], ENHANCED_PROVIDER)

    def test_no_key_that_is_strong_enough(self) -> None:
        """MQQB-3.1.7.1.5-06: Advanced needs a key for AES; Enhanced that, or its own."""
        self.assertIn(AES_PROVIDER, str(self.refused(keys(BASE_PROVIDER, ENHANCED_PROVIDER), ADVANCED)))
        self.assertIn(ENHANCED_PROVIDER, str(self.refused(keys(BASE_PROVIDER), ENHANCED)))

    def test_lengths_of_aes(self) -> None:
        """MQQB-3.1.7.1.5-07: 128, 192 or 256 bits, by the preferred algorithm."""
        for algorithm, bits in (
            (EncryptionAlgorithm.AES_128, 128),
            (EncryptionAlgorithm.AES_192, 192),
            (EncryptionAlgorithm.AES_256, 256),
        ):
            found = self.chosen(ALL, ADVANCED, Preferences(advanced=algorithm))
            self.assertEqual(found, (AES_PROVIDER, 5, algorithm, bits))

    def test_short_keys_for_aes(self) -> None:
        """A key for AES that is short enough to be factored is refused, unless weak ones are permitted."""
        for bits, is_weak in ((1024, False), (1023, True), (512, True)):
            # What bitLen says proves nothing.
            blob = PublicKeyBlob((1 << bits) - 1, 65537, 1024)
            published = MqdsPublicKeys((MqdsPublicKey(AES_PROVIDER, ProviderType.PROV_RSA_AES, blob),))
            self.assertEqual(self.chosen(published, BASE)[0], AES_PROVIDER)
            if is_weak:
                error = self.refused(published, BASE, Preferences())
                self.assertIn(f"has {bits} bits, fewer than 1024, which [security] weak_alg", str(error))
            else:
                self.assertEqual(self.chosen(published, BASE, Preferences())[0], AES_PROVIDER)

    def test_short_keys_for_rc2(self) -> None:
        """SendEnhancedRC2Using40BitKeys: 40 bits by chance, and 88 zero bits behind them."""
        rc2 = Preferences(enhanced=EncryptionAlgorithm.RC2, sends_40_bits=True, weak=True)
        choice = choose(keys(ENHANCED_PROVIDER), ENHANCED, rc2)
        self.assertEqual((choice.algorithm, choice.key_bits, choice.padded_bits), (0x6602, 40, 128))
        rc4 = Preferences(sends_40_bits=True, weak=True)
        choice = choose(keys(ENHANCED_PROVIDER), ENHANCED, rc4)
        self.assertEqual((choice.algorithm, choice.key_bits, choice.padded_bits), (0x6801, 128, 128))

    def test_weak_ciphers_are_not_used_by_themselves(self) -> None:
        """A receiver without a key for AES gets nothing, and the setting that would change that is named."""
        for published, level in ((keys(BASE_PROVIDER), BASE), (keys(ENHANCED_PROVIDER), ENHANCED)):
            error = self.refused(published, level, Preferences())
            self.assertIn("[security] weak_algorithms = true", str(error))
        self.assertEqual(self.chosen(ALL, BASE, Preferences())[0], AES_PROVIDER)

    def test_invalid_levels(self) -> None:
        """0, 2 and 4 mean no provider."""
        for level in (0, 2, 4, 6):
            self.assertIn("not a privacy level", str(self.refused(ALL, level)))

    def test_preferences_have_to_fit(self) -> None:
        """A preferred cipher of another level is not used."""
        with self.assertRaises(LocalProtocolError):
            Preferences(advanced=EncryptionAlgorithm.RC4)
        with self.assertRaises(LocalProtocolError):
            Preferences(base=EncryptionAlgorithm.AES_128)

    def test_public_key(self) -> None:
        """MQQB-3.1.7.1.5.2-01: bitLen, pubExp and modulus of the list, and the constants of 2.4.1."""
        source = MqdsPublicKey(
            AES_PROVIDER,
            ProviderType.PROV_RSA_AES,
            PublicKeyBlob((1 << 1024) - 159, 65537, algorithm=KeyAlgorithm.SIGNATURE),
        )
        found = public_key_of(MqdsPublicKeys((source,)), AES_PROVIDER)
        assert found is not None
        self.assertEqual(found.to_bytes()[:20].hex(), "0602000000a40000525341310004000001000100")
        self.assertEqual(found.to_bytes()[20:], source.key.to_bytes()[20:])
        self.assertIsNone(public_key_of(MqdsPublicKeys((source,)), BASE_PROVIDER))

    def test_choice_shows_no_modulus(self) -> None:
        """It is public, and nothing to read for people."""
        choice: CipherChoice = choose(ALL, ADVANCED, WEAK)
        self.assertNotIn(str(choice.public_key.modulus), repr(choice))


class DecryptingTests(SynchronousTestCase):
    """Messages that are refused without an attempt to decrypt."""

    def test_levels_and_ciphers(self) -> None:
        """MQMQ-2.2.19.3-17: levels 1, 3 and 5; RC2 and RC4 at the first two, AES at each, and no others."""
        for level in (0, 2, 4, 6, 0xFFFFFFFF):
            self.assertIn("PrivacyLevel", why_not_decrypted(level, 0x6610, WEAK) or "")
        for level, algorithms in (
            (1, (0x6602, 0x6801, 0x660E, 0x660F, 0x6610)),
            (3, (0x6602, 0x6801, 0x660E, 0x660F, 0x6610)),
            (5, (0x660E, 0x660F, 0x6610)),
        ):
            for algorithm in (0x6602, 0x6801, 0x660E, 0x660F, 0x6610, 0x6601, 0):
                why = why_not_decrypted(level, algorithm, WEAK)
                self.assertEqual(why is None, algorithm in algorithms, (level, algorithm))

    def test_weak_ciphers(self) -> None:
        """They are named, with the line that would allow them."""
        for level in (1, 3):
            why = why_not_decrypted(level, 0x6801, Preferences())
            self.assertIn("RC4 at PrivacyLevel", why or "")
            self.assertIn("[security] weak_algorithms = true", why or "")
        for level in (1, 3, 5):
            self.assertIsNone(why_not_decrypted(level, 0x6610, Preferences()))

    def test_padded_keys(self) -> None:
        """128 bits, of which the final 88 are 0."""
        self.assertTrue(is_padded(b"12345" + bytes(11)))
        self.assertFalse(is_padded(b"12345" + bytes(10) + b"\1"))
        self.assertFalse(is_padded(b"12345"))

    def test_keys_that_are_refused(self) -> None:
        """Only a padded RC2 key of the Enhanced provider, and only if the operator forbids it."""
        padded, whole = b"12345" + bytes(11), b"12345" + bytes(10) + b"\1"
        rc2, rc4 = EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4
        for level, algorithm, key, rejects, expected in (
            (ENHANCED, rc2, padded, True, True),
            (ENHANCED, rc2, padded, False, False),
            (ENHANCED, rc2, whole, True, False),
            (ENHANCED, rc4, padded, True, False),
            (BASE, rc2, padded, True, False),
        ):
            fault = key_fault(level, algorithm, key, Preferences(rejects_40_bits=rejects))
            self.assertIs(fault is not None, expected)
