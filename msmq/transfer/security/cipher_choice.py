"""Choice of provider, cipher and key for a body. [MS-MQQB] 3.1.7.1.5 and 3.1.5.8.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.errors import LocalProtocolError, MsmqError
from msmq.quoting import quoted
from msmq.structures.algorithms import EncryptionAlgorithm, PrivacyLevel
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKeys,
)
from msmq.transfer.security.key_cache import (
    RECEIVE_SYMMETRIC_KEY_CACHE_SIZE,
    SEND_SYMMETRIC_KEY_CACHE_SIZE,
    SYMMETRIC_KEY_SHORT_LIFETIME,
)

PROVIDERS: Final[Mapping[int, str]] = {
    PrivacyLevel.BASE: BASE_PROVIDER,
    PrivacyLevel.ENHANCED: ENHANCED_PROVIDER,
    PrivacyLevel.ADVANCED: AES_PROVIDER,
}
"""SelectedCSP: the provider that a privacy level means. [MS-MQQB] 3.1.5.8.3."""

ALGORITHMS: Final[Mapping[int, frozenset[int]]] = {
    PrivacyLevel.BASE: frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4}),
    PrivacyLevel.ENHANCED: frozenset({EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4}),
    PrivacyLevel.ADVANCED: frozenset(
        {EncryptionAlgorithm.AES_128, EncryptionAlgorithm.AES_192, EncryptionAlgorithm.AES_256}
    ),
}
"""EncryptionAlgorithm: the ciphers that this queue manager sends at a privacy level. [MS-MQMQ] 2.2.19.3."""

KEY_BITS: Final[Mapping[int, int]] = {
    EncryptionAlgorithm.AES_128: 128,
    EncryptionAlgorithm.AES_192: 192,
    EncryptionAlgorithm.AES_256: 256,
}
"""UseSymmKeyLength of the ciphers that decide it themselves. [MS-MQQB] 3.1.7.1.5."""

BASE_BITS: Final = 40
ENHANCED_BITS: Final = 128

ADVANCED_BITS: Final = 1024
"""The length of the RSA key of the provider for AES; a shorter one keeps no secret. [MS-MQQB] 3.1.7.1.5."""

WEAK_LINE: Final = "[security] weak_algorithms = true"
"""The line of the configuration that allows ciphers which no longer keep anything secret."""


class CannotEncryptError(MsmqError):
    """A message cannot be encrypted; has the reason. [MS-MQQB] 3.1.7.1.5.1."""


@attrs.frozen(kw_only=True)
class Preferences:
    """Preferences of a queue manager, and allowed ciphers. [MS-MQQB] 3.1.1.3.

    @ivar advanced: PreferredAdvancedAlgorithm.
    @ivar enhanced: PreferredEnhancedAlgorithm.
    @ivar base: PreferredBaseAlgorithm.
    @ivar sends_40_bits: SendEnhancedRC2Using40BitKeys.
    @ivar rejects_40_bits: RejectEnhancedRC2Using40BitKeys.
    @ivar weak: whether RC2, RC4 and keys of 40 bits may be used at all, in sent and received messages;
        and by us RSA keys of fewer than 1024 bits for AES.
    @ivar send_keys: SendSymmetricKeyCacheSize.
    @ivar receive_keys: ReceiveSymmetricKeyCacheSize.
    @ivar lifetime: SymmetricKeyShortLifetime, in seconds.
    """

    advanced: EncryptionAlgorithm = EncryptionAlgorithm.AES_256
    enhanced: EncryptionAlgorithm = EncryptionAlgorithm.RC4
    base: EncryptionAlgorithm = EncryptionAlgorithm.RC4
    sends_40_bits: bool = False
    rejects_40_bits: bool = False
    weak: bool = False
    send_keys: int = SEND_SYMMETRIC_KEY_CACHE_SIZE
    receive_keys: int = RECEIVE_SYMMETRIC_KEY_CACHE_SIZE
    lifetime: float = SYMMETRIC_KEY_SHORT_LIFETIME

    def __attrs_post_init__(self) -> None:
        levels = (PrivacyLevel.ADVANCED, PrivacyLevel.ENHANCED, PrivacyLevel.BASE)
        for level, algorithm in zip(levels, (self.advanced, self.enhanced, self.base), strict=True):
            if algorithm not in ALGORITHMS[level]:
                raise LocalProtocolError(
                    f"{algorithm.name} is not a cipher of the privacy level {level.name.lower()}"
                )


@attrs.frozen
class CipherChoice:
    """The cipher and key for the body of a message.

    @ivar level: what PrivacyLevel says of it; the level of the provider, not what was asked (reading 72).
    @ivar provider_name: UseCSP.
    @ivar algorithm: UseAlgorithm.
    @ivar key_bits: UseSymmKeyLength.
    @ivar padded_bits: the length of the key with the zero bits behind it.
    @ivar public_key: UsePublicKey.
    """

    level: PrivacyLevel
    provider_name: str
    algorithm: EncryptionAlgorithm
    key_bits: int
    padded_bits: int
    public_key: PublicKeyBlob


def public_key_of(keys: MqdsPublicKeys, provider_name: str) -> PublicKeyBlob | None:
    """The key of a provider, as a PUBLICKEYBLOB; C{None} if there is not one of it. [MS-MQQB] 3.1.7.1.5.2."""
    for key in keys.keys:
        if key.provider_name == provider_name:
            source = key.key
            return PublicKeyBlob(source.modulus, source.public_exponent, source.bit_length)
    return None


def choose(keys: MqdsPublicKeys, level: int, preferences: Preferences) -> CipherChoice:
    """The best provider for which the receiver has published a key. [MS-MQQB] 3.1.7.1.5.

    The requested level is a minimum: a key for AES is preferred at any level.

    @param keys: PublicEncryptionKeyList of the receiver.
    @param level: Message.PrivacyLevel.
    @raise CannotEncryptError: no usable key, or none that is allowed.
    """
    if level not in PROVIDERS:
        raise CannotEncryptError(f"{level} is not a privacy level, which are 1, 3 and 5")
    advanced = public_key_of(keys, AES_PROVIDER)
    if advanced is not None:
        length = advanced.modulus.bit_length()
        if length < ADVANCED_BITS and not preferences.weak:
            raise CannotEncryptError(
                f"the receiver's key for AES has {length} bits, fewer than {ADVANCED_BITS}, which {WEAK_LINE}"
                " would allow"
            )
        bits = KEY_BITS[preferences.advanced]
        return CipherChoice(PrivacyLevel.ADVANCED, AES_PROVIDER, preferences.advanced, bits, bits, advanced)
    if level == PrivacyLevel.ADVANCED:
        raise _no_key(AES_PROVIDER, level)
    enhanced = public_key_of(keys, ENHANCED_PROVIDER)
    if enhanced is None and level == PrivacyLevel.ENHANCED:
        raise _no_key(ENHANCED_PROVIDER, level)
    public_key = enhanced or public_key_of(keys, BASE_PROVIDER)
    if public_key is None:
        raise _no_key(BASE_PROVIDER, level)
    if not preferences.weak:
        raise CannotEncryptError(
            f"the receiver publishes no key for AES, and what it publishes is for RC2 and RC4, which"
            f" {WEAK_LINE} would allow"
        )
    if enhanced is not None:
        is_short = preferences.enhanced is EncryptionAlgorithm.RC2 and preferences.sends_40_bits
        bits = BASE_BITS if is_short else ENHANCED_BITS
        algorithm = preferences.enhanced
        return CipherChoice(
            PrivacyLevel.ENHANCED, ENHANCED_PROVIDER, algorithm, bits, ENHANCED_BITS, public_key
        )
    return CipherChoice(PrivacyLevel.BASE, BASE_PROVIDER, preferences.base, BASE_BITS, BASE_BITS, public_key)


def _no_key(provider_name: str, level: int) -> CannotEncryptError:
    name = PrivacyLevel(level).name.lower()
    return CannotEncryptError(
        f"the receiver publishes no key of the provider {quoted(provider_name)}, which level {name} needs"
    )


def received_provider(level: int, algorithm: int) -> str | None:
    """SelectedCSP: the provider whose key decrypts a body; C{None} if there is none. [MS-MQQB] 3.1.5.8.3.

    AES is accepted at each privacy level, with the key for AES: [MS-MQQB] 3.1.7.1.5 has a sender prefer AES
    at any level, and does not say that it changes PrivacyLevel.

    @param level: PrivacyLevel, as it came.
    @param algorithm: EncryptionAlgorithm, as it came.
    """
    if level not in PROVIDERS:
        return None
    if algorithm in ALGORITHMS[PrivacyLevel.ADVANCED]:
        return AES_PROVIDER
    return PROVIDERS[level] if algorithm in ALGORITHMS[level] else None


def why_not_decrypted(level: int, algorithm: int, preferences: Preferences) -> str | None:
    """Why an encrypted body is not decrypted at all; C{None} if it may be. [MS-MQQB] 3.1.5.8.3.

    @param level: PrivacyLevel, as it came.
    @param algorithm: EncryptionAlgorithm, as it came.
    """
    if level not in PROVIDERS:
        return f"PrivacyLevel is {level}, which means no provider; they are 1, 3 and 5"
    provider = received_provider(level, algorithm)
    if provider is None:
        return f"EncryptionAlgorithm 0x{algorithm:04X} is not a cipher of PrivacyLevel {level}"
    if provider != AES_PROVIDER and not preferences.weak:
        return (
            f"its body is encrypted with {EncryptionAlgorithm(algorithm).name} at PrivacyLevel {level}"
            f" ({provider}), which {WEAK_LINE} would allow"
        )
    return None


def is_padded(key: bytes) -> bool:
    """Whether the final 88 bits of a key of 128 are 0, so that it has only 40. [MS-MQQB] 3.1.5.8.3."""
    return len(key) * 8 == ENHANCED_BITS and not any(key[BASE_BITS // 8 :])


def key_fault(level: int, algorithm: int, key: bytes, preferences: Preferences) -> str | None:
    """Why a session key is refused: an RC2 key of 40 bits from the Enhanced provider. [MS-MQQB] 3.1.5.8.3."""
    if (
        preferences.rejects_40_bits
        and level == PrivacyLevel.ENHANCED
        and algorithm == EncryptionAlgorithm.RC2
        and is_padded(key)
    ):
        return (
            "its RC2 key has 40 bits where the Enhanced provider has 128, which"
            " [security] reject_enhanced_rc2_with_40_bit_keys forbids"
        )
    return None
