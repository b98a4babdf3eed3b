"""Contracts of every L{ISigning} and every L{ICertificateStore}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zope.interface.verify import verifyObject

from msmq.interfaces.security.signing import (
    CertificateFacts,
    Credentials,
    ICertificateStore,
    ISigning,
    KeptCertificate,
    Unusable,
)
from msmq.structures.algorithms import HashAlgorithm
from msmq.wire.sid import parse_sid

if TYPE_CHECKING:
    from twisted.trial.unittest import SynchronousTestCase as Base
else:
    Base = object

SID = parse_sid("S-1-5-21-1-2-3-1001")
OTHER_SID = parse_sid("S-1-5-21-1-2-3-1002")
FIRST, LAST = 1_700_000_000, 1_800_000_000
RUBBISH = (b"", b"\0", b"\x30", b"\x30\x82\xff\xff", b"rubbish", bytes(1000), b"[" * 100_000)


class SigningContract(Base):
    """Contract of every L{ISigning}."""

    def make(self) -> ISigning:
        """Create the implementation under test."""
        raise AssertionError("each suite makes its own")

    def credentials(self, number: int = 0) -> Credentials:
        """Existing credentials; the same for the same number."""
        raise AssertionError("each suite makes its own")

    def test_it_provides(self) -> None:
        """It has every method."""
        verifyObject(ISigning, self.make())

    def test_each_algorithm(self) -> None:
        """The signed digest is found among other inputs, by its position; later inputs are not evaluated."""
        signing = self.make()
        credentials = self.credentials()
        for algorithm in HashAlgorithm:
            signature = signing.sign(credentials, algorithm, b"signed")
            assert isinstance(signature, bytes), signature
            found = signing.verify(credentials.certificate, signature, algorithm, [b"other", b"signed"])
            self.assertEqual(found, 1)
            rest = iter([b"signed", b"other"])
            self.assertEqual(signing.verify(credentials.certificate, signature, algorithm, rest), 0)
            self.assertEqual(list(rest), [b"other"])
            self.assertIsNone(signing.verify(credentials.certificate, signature, algorithm, [b"other"]))
            self.assertIsNone(signing.verify(credentials.certificate, signature, algorithm, []))

    def test_another_algorithm(self) -> None:
        """A signature is invalid with another hash, and an unknown hash is reported."""
        signing = self.make()
        credentials = self.credentials()
        signature = signing.sign(credentials, HashAlgorithm.SHA_256, b"signed")
        assert isinstance(signature, bytes)
        for algorithm in set(HashAlgorithm) - {HashAlgorithm.SHA_256}:
            self.assertIsNone(signing.verify(credentials.certificate, signature, algorithm, [b"signed"]))
        for unknown in (0, 0x8005, 0x9999, 0xFFFFFFFF):
            found = signing.verify(credentials.certificate, signature, unknown, [b"signed"])
            assert isinstance(found, Unusable)
            self.assertIn(f"{unknown:#06x}", found.reason)
            self.assertIsInstance(signing.sign(credentials, unknown, b"signed"), Unusable)

    def test_another_certificate(self) -> None:
        """A signature is invalid with another certificate."""
        signing = self.make()
        signature = signing.sign(self.credentials(), HashAlgorithm.SHA_512, b"signed")
        assert isinstance(signature, bytes)
        other = self.credentials(1).certificate
        self.assertIsNone(signing.verify(other, signature, HashAlgorithm.SHA_512, [b"signed"]))

    def test_spoilt_signatures(self) -> None:
        """A signature with any changed bit, or of another length, is invalid."""
        signing = self.make()
        credentials = self.credentials()
        signature = signing.sign(credentials, HashAlgorithm.SHA_512, b"signed")
        assert isinstance(signature, bytes)
        spoilt = [bytes(len(signature)), b"\xff" * len(signature), b"", signature[:-1], signature + b"\0"]
        for place in (0, 1, len(signature) // 2, len(signature) - 1):
            for bit in (1, 0x80):
                changed = bytearray(signature)
                changed[place] ^= bit
                spoilt.append(bytes(changed))
        for each in spoilt:
            found = signing.verify(credentials.certificate, each, HashAlgorithm.SHA_512, [b"signed"])
            self.assertIsNone(found, each)

    def test_signature_without_its_zeros(self) -> None:
        """A signature that ends with a zero is invalid without it, though its number is the same."""
        signing = self.make()
        credentials = self.credentials()
        for data in (b"signed %d" % count for count in range(10_000)):
            signature = signing.sign(credentials, HashAlgorithm.SHA_512, data)
            assert isinstance(signature, bytes)
            if signature.endswith(b"\0"):
                break
        else:
            self.fail("none of ten thousand signatures ends with a zero")
        certificate = credentials.certificate
        self.assertEqual(signing.verify(certificate, signature, HashAlgorithm.SHA_512, [data]), 0)
        self.assertIsNone(signing.verify(certificate, signature[:-1], HashAlgorithm.SHA_512, [data]))

    def test_garbage(self) -> None:
        """Invalid certificates are reported, by every operation; none raises."""
        signing = self.make()
        whole = self.credentials().certificate
        for certificate in (*RUBBISH, whole[:-1], whole[: len(whole) // 2]):
            self.assertIsInstance(signing.facts(certificate), Unusable)
            found = signing.verify(certificate, b"signature", HashAlgorithm.SHA_512, [b""])
            self.assertIsInstance(found, Unusable)
            self.assertIsInstance(signing.parse(certificate), Unusable)
            self.assertIsInstance(signing.parse(certificate, b"password"), Unusable)

    def test_every_byte_of_a_certificate(self) -> None:
        """A certificate with any byte changed is another one or none; nothing raises."""
        signing = self.make()
        whole = self.credentials().certificate
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= 0xFF
            for certificate in (bytes(changed), whole[:place]):
                self.assertIsInstance(signing.facts(certificate), CertificateFacts | Unusable)
                found = signing.verify(certificate, b"\1" * 256, HashAlgorithm.SHA_512, [b""])
                self.assertTrue(found is None or isinstance(found, Unusable))

    def test_keys_that_cannot_sign(self) -> None:
        """A certificate alone signs nothing; an invalid key neither raises nor is shown."""
        signing = self.make()
        certificate = self.credentials().certificate
        found = signing.sign(Credentials(certificate), HashAlgorithm.SHA_512, b"")
        self.assertIsInstance(found, Unusable)

    def test_created(self) -> None:
        """A new certificate has its owner and its validity; each has a key of its own; it signs."""
        signing = self.make()
        first = signing.create("alice", FIRST, LAST)
        second = signing.create("alice", FIRST, LAST)
        self.assertNotEqual(first.private_key, second.private_key)
        facts = signing.facts(first.certificate)
        assert isinstance(facts, CertificateFacts)
        self.assertEqual((facts.subject, facts.issuer), ("CN=alice", "CN=alice"))
        self.assertEqual((facts.not_before, facts.not_after), (FIRST, LAST))
        self.assertEqual(facts.key_type, "RSA")
        self.assertGreaterEqual(facts.key_bits, 2048)
        self.assertEqual(len(bytes.fromhex(facts.fingerprint)), 32)
        signature = signing.sign(first, HashAlgorithm.SHA_512, b"signed")
        assert isinstance(signature, bytes)
        self.assertEqual(signing.verify(first.certificate, signature, HashAlgorithm.SHA_512, [b"signed"]), 0)

    def test_nothing_secret_is_shown(self) -> None:
        """Neither key nor certificate is in what is printed of credentials."""
        credentials = self.credentials()
        assert credentials.private_key is not None
        shown = repr(KeptCertificate(credentials, SID, is_internal=True))
        self.assertNotIn(repr(credentials.private_key)[2:-1], shown)
        self.assertNotIn("private_key", shown)


class CertificateStoreContract(Base):
    """Contract of every L{ICertificateStore}."""

    def make_store(self) -> ICertificateStore:
        """Create the store under test, each time with the same contents if they are durable."""
        raise AssertionError("each suite makes its own")

    def test_it_provides(self) -> None:
        """It has every method."""
        verifyObject(ICertificateStore, self.make_store())

    def test_kept(self) -> None:
        """Added certificates are listed, once and in order, until they are removed."""
        store = self.make_store()
        self.assertEqual(list(store.load()), [])
        kept = [
            KeptCertificate(Credentials(b"certificate %d" % number, b"key"), sid, is_internal=number == 0)
            for number, sid in enumerate((SID, OTHER_SID, SID))
        ]
        for each in kept:
            store.add(each)
        store.add(KeptCertificate(Credentials(b"certificate 1", b"another key"), SID, is_internal=True))
        self.assertEqual(list(store.load()), kept)
        store.remove(b"certificate 1")
        store.remove(b"certificate 1")
        store.remove(b"certificate 9")
        self.assertEqual(list(store.load()), [kept[0], kept[2]])
        store.add(kept[1])
        self.assertEqual(list(store.load()), [kept[0], kept[2], kept[1]])
