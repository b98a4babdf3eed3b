"""The numbers of privacy levels, ciphers, hashes and signatures in a packet. [MS-MQMQ] 2.2.19.3."""

from __future__ import annotations

import enum


class PrivacyLevel(enum.IntEnum):
    """PrivacyLevel: whether, and how strongly, the body of a message is encrypted. [MS-MQDMPR] 3.1.1.12."""

    NONE = 0
    BASE = 1
    """40 bits."""
    ENHANCED = 3
    """128 bits."""
    ADVANCED = 5
    """AES."""


class AuthenticationLevel(enum.IntEnum):
    """AuthenticationLevel: the kind of signature of a message, in Flags.AS. [MS-MQDMPR] 3.1.1.12."""

    NONE = 0
    SIG_1_0 = 1
    SIG_2_0 = 3
    SIG_3_0 = 5


class EncryptionAlgorithm(enum.IntEnum):
    """EncryptionAlgorithm: the ciphers for message bodies. [MS-MQDMPR] 3.1.1.12."""

    RC2 = 0x6602
    RC4 = 0x6801
    AES_128 = 0x660E
    AES_192 = 0x660F
    AES_256 = 0x6610


class HashAlgorithm(enum.IntEnum):
    """HashAlgorithm. [MS-MQDMPR] 3.1.1.12."""

    MD2 = 0x8001
    MD4 = 0x8002
    MD5 = 0x8003
    """One of the document's tables has MD4 for this value too (reading 61)."""
    SHA_1 = 0x8004
    SHA_256 = 0x800C
    SHA_512 = 0x800E
