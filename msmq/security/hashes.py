"""Hash functions of signatures, from libraries. [MS-MQMQ] 2.2.19.3 HashAlgorithm."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from Crypto.Hash import MD2, MD4

from msmq.structures.algorithms import HashAlgorithm


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _sha_1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


DIGESTS: Final[Mapping[int, Callable[[bytes], bytes]]] = MappingProxyType(
    {
        HashAlgorithm.MD2: lambda data: MD2.new(data).digest(),
        HashAlgorithm.MD4: lambda data: MD4.new(data).digest(),
        HashAlgorithm.MD5: _md5,
        HashAlgorithm.SHA_1: _sha_1,
        HashAlgorithm.SHA_256: lambda data: hashlib.sha256(data).digest(),
        HashAlgorithm.SHA_512: lambda data: hashlib.sha512(data).digest(),
    }
)
"""The hash of some bytes, by HashAlgorithm."""

DIGEST_INFOS: Final[Mapping[int, bytes]] = MappingProxyType(
    {
        HashAlgorithm.MD2: bytes.fromhex("3020300c06082a864886f70d020205000410"),
        HashAlgorithm.MD4: bytes.fromhex("3020300c06082a864886f70d020405000410"),
        HashAlgorithm.MD5: bytes.fromhex("3020300c06082a864886f70d020505000410"),
        HashAlgorithm.SHA_1: bytes.fromhex("3021300906052b0e03021a05000414"),
        HashAlgorithm.SHA_256: bytes.fromhex("3031300d060960864801650304020105000420"),
        HashAlgorithm.SHA_512: bytes.fromhex("3051300d060960864801650304020305000440"),
    }
)
"""[RFC8017] 9.2 note 1: the DigestInfo prefix before a hash in the block that RSA signs, by HashAlgorithm."""
