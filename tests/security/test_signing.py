"""Signatures and certificates: by the libraries, without arithmetic, and compared with openssl."""

from __future__ import annotations

from pathlib import Path
from unittest import skipIf

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.signing import (
    CertificateFacts,
    CertificateStoreError,
    Credentials,
    ICertificateStore,
    ISigning,
    KeptCertificate,
    Unusable,
)
from msmq.security.certificate_store import FileCertificateStore
from msmq.security.signatures import LibrarySigning
from msmq.structures.algorithms import HashAlgorithm
from msmq.testing.contracts.signing import (
    FIRST,
    LAST,
    RUBBISH,
    SID,
    CertificateStoreContract,
    SigningContract,
)
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from tests.security.certificates import (
    WITHOUT_OPENSSL,
    certificate_files,
    credentials,
    directory,
    sign,
    verifies,
)
from tests.security.openssl import openssl

DIGESTS = {
    HashAlgorithm.MD5: "md5",
    HashAlgorithm.SHA_1: "sha1",
    HashAlgorithm.SHA_256: "sha256",
    HashAlgorithm.SHA_512: "sha512",
}


class MemorySigningTests(SigningContract, SynchronousTestCase):
    """L{MemorySigning}."""

    def setUp(self) -> None:
        self.signing = MemorySigning()
        self.made = [self.signing.create(name, FIRST, LAST) for name in ("alice", "bob")]

    def make(self) -> ISigning:
        return self.signing

    def credentials(self, number: int = 0) -> Credentials:
        return self.made[number]


@skipIf(WITHOUT_OPENSSL, WITHOUT_OPENSSL)
class SigningTests(SigningContract, SynchronousTestCase):
    """L{LibrarySigning}."""

    def make(self) -> ISigning:
        return LibrarySigning()

    def credentials(self, number: int = 0) -> Credentials:
        return credentials(number)

    def test_openssl_signs(self) -> None:
        """Signatures by openssl verify, with each hash that it supports."""
        _, private = certificate_files()
        encoded = self.credentials().certificate
        data = bytes(range(256)) * 5
        for algorithm, name in DIGESTS.items():
            signature = sign(private, name, data)
            self.assertEqual(self.make().verify(encoded, signature, algorithm, [b"", data]), 1)
            self.assertIsNone(self.make().verify(encoded, signature[::-1], algorithm, [data]))

    def test_openssl_verifies(self) -> None:
        """The signatures verify with openssl, and equal its own."""
        certificate, private = certificate_files()
        data = b"some data"
        for algorithm, name in DIGESTS.items():
            signature = self.make().sign(self.credentials(), algorithm, data)
            assert isinstance(signature, bytes)
            self.assertTrue(verifies(certificate, name, signature, data))
            self.assertFalse(verifies(certificate, name, signature, data + b"!"))
            self.assertEqual(signature, sign(private, name, data))

    def test_retired_hashes(self) -> None:
        """MD2 and MD4, which openssl does not offer any more, are in the block that it finds under them.

        The hashes are those of RFC 1319 and RFC 1320 for "abc".
        """
        certificate, _ = certificate_files()
        for algorithm, object_identifier, digest in (
            (HashAlgorithm.MD2, "2a864886f70d0202", "da853b0d3f88d99b30283a69e6ded6bb"),
            (HashAlgorithm.MD4, "2a864886f70d0204", "a448017aaf21d8525fc10ae87aa6729d"),
        ):
            signature = self.make().sign(self.credentials(), algorithm, b"abc")
            assert isinstance(signature, bytes)
            path = directory() / "retired.sig"
            path.write_bytes(signature[::-1])
            block = openssl(
                *("pkeyutl", "-verifyrecover", "-certin", "-inkey", str(certificate), "-in", str(path))
            )
            self.assertEqual(block.hex(), f"3020300c0608{object_identifier}05000410{digest}")

    def test_other_keys(self) -> None:
        """A certificate without an RSA key has facts, and verifies nothing."""
        encoded = credentials(2, "ec").certificate
        facts = self.make().facts(encoded)
        assert isinstance(facts, CertificateFacts)
        self.assertEqual((facts.key_type, facts.key_bits), ("EC", 256))
        found = self.make().verify(encoded, b"", HashAlgorithm.SHA_512, [])
        self.assertEqual(found, Unusable("has no RSA key"))

    def test_exponents(self) -> None:
        """A public exponent has 32 bits; with longer ones an unknown peer would keep the processor busy."""
        data = b"some data"
        for number, exponent in ((4, 3), (5, 0xFFFFFFFB), (6, 0x10000000F), (7, (1 << 255) + 1)):
            pem = directory() / f"exponent-{number}.crt"
            private = pem.with_suffix(".key")
            openssl(
                *(
                    "req",
                    "-x509",
                    "-newkey",
                    "rsa:2048",
                    "-pkeyopt",
                    f"rsa_keygen_pubexp:{exponent}",
                    "-nodes",
                ),
                *("-keyout", str(private), "-out", str(pem), "-subj", "/CN=user", "-days", "9"),
            )
            encoded = openssl("x509", "-in", str(pem), "-outform", "DER")
            facts = self.make().facts(encoded)
            assert isinstance(facts, CertificateFacts)
            self.assertEqual(facts.public_exponent, exponent)
            signature = sign(private, "sha512", data)
            found = self.make().verify(encoded, signature, HashAlgorithm.SHA_512, [data])
            bits = exponent.bit_length()
            expected = Unusable(f"has a key with a public exponent of {bits} bits, more than 32")
            self.assertEqual(found, 0 if bits <= 32 else expected)

    def test_facts(self) -> None:
        """They are what openssl prints of it."""
        certificate, _ = certificate_files(3, name="Alice Example")
        encoded = openssl("x509", "-in", str(certificate), "-outform", "DER")
        facts = self.make().facts(encoded)
        assert isinstance(facts, CertificateFacts)
        text = openssl(
            "x509", "-in", str(certificate), "-noout", "-serial", "-fingerprint", "-sha256"
        ).decode()
        self.assertIn(f"{facts.serial_number:X}", text)
        self.assertIn(facts.fingerprint.upper(), text.replace(":", ""))
        self.assertEqual(facts.subject, "CN=Alice Example")

    def test_names_that_cannot_be_read(self) -> None:
        """A name is for people: what it says, and whether it is text at all, changes no signature."""
        _, private = certificate_files(8, name="Alice Example")
        encoded = credentials(8).certificate.replace(b"Alice Example", b"Al\xffce Example")
        facts = self.make().facts(encoded)
        assert isinstance(facts, CertificateFacts)
        self.assertEqual((facts.subject, facts.key_bits), ("", 2048))
        signature = sign(private, "sha512", b"data")
        self.assertEqual(self.make().verify(encoded, signature, HashAlgorithm.SHA_512, [b"data"]), 0)

    def test_invalid_keys(self) -> None:
        """The error about a damaged key shows nothing of it."""
        made = self.credentials()
        assert made.private_key is not None
        for private in (*RUBBISH, made.private_key[:-1], credentials(2, "ec").private_key):
            found = self.make().sign(Credentials(made.certificate, private), HashAlgorithm.SHA_512, b"")
            assert isinstance(found, Unusable)
            self.assertIn("has a key that cannot sign", found.reason)

    def test_file_formats(self) -> None:
        """PEM, DER and PKCS#12, with and without a key or a password, give the same certificate."""
        certificate, private = certificate_files()
        expected = self.credentials()
        signing = self.make()
        both = certificate.read_bytes() + private.read_bytes()
        self.assertEqual(signing.parse(certificate.read_bytes()), Credentials(expected.certificate))
        self.assertEqual(signing.parse(expected.certificate), Credentials(expected.certificate))
        for pem in (both, private.read_bytes() + certificate.read_bytes()):
            found = signing.parse(pem)
            assert isinstance(found, Credentials)
            self.assertEqual(found.certificate, expected.certificate)
            self.assertIsInstance(signing.sign(found, HashAlgorithm.SHA_512, b""), bytes)
        locked = directory() / "locked.key"
        openssl("pkcs8", "-topk8", "-in", str(private), "-out", str(locked), "-passout", "pass:secret")
        pfx = openssl(
            *("pkcs12", "-export", "-in", str(certificate), "-inkey", str(private), "-passout", "pass:secret")
        )
        for data in (certificate.read_bytes() + locked.read_bytes(), pfx):
            found = signing.parse(data, b"secret")
            assert isinstance(found, Credentials)
            self.assertEqual(found.certificate, expected.certificate)
            self.assertIsNotNone(found.private_key)
            self.assertEqual(signing.parse(data), Unusable("needs a password, or is damaged"))
            wrong = Unusable("does not open with this password, or is damaged")
            self.assertEqual(signing.parse(data, b"wrong"), wrong)

    def test_keys_of_others(self) -> None:
        """A key that is not that of its certificate is refused; so are keys that are not RSA's."""
        certificate, _ = certificate_files()
        _, other = certificate_files(1)
        found = self.make().parse(certificate.read_bytes() + other.read_bytes())
        self.assertEqual(found, Unusable("has a private key that is not that of its certificate"))
        elliptic, private = certificate_files(2, key="ec")
        found = self.make().parse(elliptic.read_bytes() + private.read_bytes())
        self.assertEqual(found, Unusable("has no RSA key"))
        self.assertEqual(self.make().parse(private.read_bytes()), Unusable("holds no certificate"))


class MemoryCertificateStoreTests(CertificateStoreContract, SynchronousTestCase):
    """L{MemoryCertificateStore}."""

    def make_store(self) -> ICertificateStore:
        return MemoryCertificateStore()


class FileCertificateStoreTests(CertificateStoreContract, SynchronousTestCase):
    """L{FileCertificateStore}."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())

    def make_store(self) -> ICertificateStore:
        return FileCertificateStore(self.directory)

    def put(self) -> tuple[KeptCertificate, Path]:
        """One certificate, and its file."""
        kept = KeptCertificate(Credentials(b"certificate", b"a secret key"), SID, is_internal=True)
        self.make_store().add(kept)
        [path] = self.directory.iterdir()
        return kept, path

    def test_readable_by_its_owner_only(self) -> None:
        """Only its owner can read it; it is still there for another process."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        kept, path = self.put()
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.directory.stat().st_mode & 0o777, 0o700)
        self.assertEqual(list(self.make_store().load()), [kept])
        for mode in (0o644, 0o640, 0o601):
            path.chmod(mode)
            self.assertEqual(list(self.make_store().load()), [kept])
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_damage(self) -> None:
        """A damaged file is reported by its name, without its content."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        _, path = self.put()
        whole = path.read_bytes()
        for content in (b"", whole[:-1], b"[]", whole.replace(b"S-1", b"X-1"), b"\xff" * 10):
            path.write_bytes(content)
            error = self.assertRaises(CertificateStoreError, self.make_store().load)
            self.assertEqual(str(error), f"{path}: the file is damaged")
        path.write_bytes(whole)
        path.rename(path.with_name("mine.json"))
        error = self.assertRaises(CertificateStoreError, self.make_store().load)
        self.assertIn("no certificate of a queue manager is called so", str(error))

    def test_no_room(self) -> None:
        """The error about a failed write names the file."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.directory.write_bytes(b"")
        error = self.assertRaises(CertificateStoreError, self.put)
        self.assertIn(str(self.directory), str(error))
