"""Certificates, signatures and encrypted keys, as peers send them, and files of certificates."""

from __future__ import annotations

from typing import Final

from msmq.interfaces.security.ciphers import CipherError
from msmq.interfaces.security.signing import Credentials, Unusable
from msmq.security.signatures import LibrarySigning
from msmq.structures.algorithms import EncryptionAlgorithm, HashAlgorithm
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from tests.fuzz.finding import expect
from tests.security.library_ciphers import ciphers

PROVIDERS: Final = (AES_PROVIDER, ENHANCED_PROVIDER, BASE_PROVIDER, "", "nobody's")
SIGNING: Final = LibrarySigning()


def certificates(data: bytes) -> None:
    """Each is a verdict with its reason, and no error of any library.

    The first byte says what the rest is taken for, the second which algorithm or provider is meant.
    """
    if len(data) < 2:
        return
    kind, choice, rest = data[0] % 4, data[1], data[2:]
    match kind:
        case 0:
            _certificate(rest, choice)
        case 1:
            _file(rest, choice)
        case 2:
            _key(rest, choice)
        case _:
            _body(rest, choice)


def _certificate(data: bytes, choice: int) -> None:
    facts = SIGNING.facts(data)
    expect(isinstance(facts, Unusable) or len(facts.fingerprint) == 64, "facts, or why there are none")
    algorithm = [*HashAlgorithm, 0x1234][choice % (len(HashAlgorithm) + 1)]
    for signature in (data[-128:], data[-256:], b""):
        verdict = SIGNING.verify(data, signature, algorithm, [data[:32], b""])
        expect(verdict is None or isinstance(verdict, int | Unusable), "a verdict")
        expect(not isinstance(verdict, int), "a signature cannot be guessed")
    SIGNING.sign(Credentials(b"", data), algorithm, b"data")


def _file(data: bytes, choice: int) -> None:
    found = SIGNING.parse(data, (None, b"", b"password")[choice % 3])
    if isinstance(found, Credentials):
        SIGNING.facts(found.certificate)


def _key(data: bytes, choice: int) -> None:
    try:
        ciphers().recover_session_key(PROVIDERS[choice % len(PROVIDERS)], data)
    except CipherError:
        return


def _body(data: bytes, choice: int) -> None:
    algorithm = [*EncryptionAlgorithm, 0x1234][choice % (len(EncryptionAlgorithm) + 1)]
    for size in (5, 16, 24, 32):
        try:
            clear = ciphers().decrypt(algorithm, data[:size], data[size:])
        except CipherError:
            continue
        expect(len(clear) <= len(data), "what is in clear is no longer")
        encrypted = ciphers().encrypt(algorithm, data[:size], clear)
        expect(ciphers().decrypt(algorithm, data[:size], encrypted) == clear, "a body comes back")
