"""The keys of a queue manager are made once, kept permanently, and readable by no other user."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.ciphers import CipherError
from msmq.security.keys import PUBLIC_FILE, KeyRing, check_library, make_key
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER, MqdsPublicKeys
from tests.security.openssl import openssl


class MakingTests(SynchronousTestCase):
    """L{make_key}."""

    def test_lengths(self) -> None:
        """The key of the Base provider, which no library makes any more, is one for every library."""
        for bits in (512, 1024):
            key = make_key(bits)
            self.assertEqual(key.key_size, bits)
            self.assertEqual(key.public_key().public_numbers().e, 65537)
            numbers = key.private_numbers()
            self.assertNotEqual(numbers.p, numbers.q)
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            self.assertIn(b"RSA key ok", openssl("rsa", "-check", "-noout", data=pem))


class KeyRingTests(SynchronousTestCase):
    """L{KeyRing} on disk."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        self.made: list[int] = []

    def ring(self, *, weak: bool = False) -> KeyRing:
        """The keys of this directory."""
        ring = KeyRing(self.directory, weak=weak, bits=1024, make=self.make)
        ring.open()
        return ring

    def make(self, bits: int) -> RSAPrivateKey:
        """A key, and a note of it."""
        self.made.append(bits)
        return make_key(bits)

    def test_keys_of_the_documents(self) -> None:
        """MQDMPR-3.1.3-12: 512 bits for the Base provider, 1024 for the others; the names end with a NUL."""
        ring = self.ring(weak=True)
        for keys in (ring.encryption_keys, ring.signing_keys):
            self.assertEqual([key.key.bit_length for key in keys.keys], [512, 1024, 1024])
            for key in keys.keys:
                self.assertEqual(key.key.modulus.bit_length(), key.key.bit_length)
                self.assertEqual(key.key.public_exponent, 65537)
                name = (key.provider_name + "\0").encode("utf-16-le")
                self.assertEqual(key.to_bytes()[12 : 12 + len(name)], name)
        for path in self.directory.glob("*.pem"):
            self.assertIn(b"RSA key ok", openssl("rsa", "-check", "-noout", data=path.read_bytes()))

    def test_made_once(self) -> None:
        """The next start has the same keys."""
        first = self.ring()
        self.assertEqual(self.made, [1024, 1024])
        second = self.ring()
        self.assertEqual(self.made, [1024, 1024])
        self.assertEqual(second.encryption_keys, first.encryption_keys)
        self.assertEqual(second.signing_keys, first.signing_keys)

    def test_readable_by_their_owner_only(self) -> None:
        """The directory has mode 0700, each secret 0600; a file with wider permissions is restricted."""
        self.ring(weak=True)
        self.assertEqual(stat.S_IMODE(self.directory.stat().st_mode), 0o700)
        secrets = sorted(path.name for path in self.directory.glob("*.pem"))
        self.assertEqual(
            secrets,
            [
                f"{purpose}-{provider}.pem"
                for purpose in ("encryption", "signing")
                for provider in ("aes", "base", "enhanced")
            ],
        )
        for name in secrets:
            self.assertEqual(stat.S_IMODE((self.directory / name).stat().st_mode), 0o600)
        path = self.directory / "encryption-aes.pem"
        path.chmod(0o644)
        self.ring()
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_weak_keys_come_and_go_with_their_setting(self) -> None:
        """They are published only while they are allowed; existing ones are kept."""
        strong = self.ring()
        self.assertEqual(len(strong.encryption_keys.keys), 1)
        weak = self.ring(weak=True)
        self.assertEqual(len(weak.encryption_keys.keys), 3)
        self.assertEqual(weak.encryption_keys.keys[2], strong.encryption_keys.keys[0])
        self.assertEqual(self.ring().encryption_keys, strong.encryption_keys)
        with self.assertRaises(CipherError) as caught:
            strong.decrypt(BASE_PROVIDER, bytes(64))
        self.assertIn(BASE_PROVIDER, str(caught.exception))

    def test_public_halves_for_an_enterprise_file(self) -> None:
        """They are stored next to the keys, in one line of base64."""
        ring = self.ring()
        text = (self.directory / PUBLIC_FILE).read_text()
        self.assertEqual(MqdsPublicKeys.from_bytes(base64.b64decode(text)), ring.encryption_keys)
        self.assertEqual(text.count("\n"), 1)
        (self.directory / PUBLIC_FILE).unlink()
        self.ring()
        self.assertEqual((self.directory / PUBLIC_FILE).read_text(), text)

    def test_damaged_files(self) -> None:
        """No new key replaces them, and the path is reported."""
        self.ring()
        path = self.directory / "encryption-aes.pem"
        whole = path.read_bytes()
        other = generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        for content in (b"", b"rubbish", whole[:200], other):
            path.write_bytes(content)
            with self.assertRaises(CipherError) as caught:
                self.ring()
            self.assertIn(f"{path} is damaged", str(caught.exception))
            self.assertEqual(path.read_bytes(), content)
        path.write_bytes(whole)
        self.ring()

    def test_a_path_that_cannot_be_used(self) -> None:
        """A file where the directory should be, or a directory where a file should be."""
        blocked = Path(self.mktemp())
        blocked.write_bytes(b"")
        with self.assertRaises(CipherError) as caught:
            KeyRing(blocked / "keys").open()
        self.assertIn(str(blocked / "keys"), str(caught.exception))
        for name in ("encryption-aes.pem", PUBLIC_FILE):
            os.makedirs(self.directory / name)
            with self.assertRaises(CipherError) as caught:
                self.ring()
            self.assertIn(str(self.directory / name), str(caught.exception))
            (self.directory / name).rmdir()

    def test_a_write_that_was_cut_off(self) -> None:
        """The remainder of an interrupted write is not used as a key."""
        self.directory.mkdir()
        (self.directory / "encryption-aes.pem.new").write_bytes(b"half a k")
        self.ring()
        self.assertFalse((self.directory / "encryption-aes.pem.new").exists())

    def test_lengths_under_rsa(self) -> None:
        """Data of another length than the modulus was encrypted for another key."""
        ring = self.ring()
        for size in (0, 1, 127, 129, 256):
            with self.assertRaises(CipherError) as caught:
                ring.decrypt(AES_PROVIDER, bytes(size))
            self.assertIn(f"holds {size} bytes", str(caught.exception))
        with self.assertRaises(CipherError):
            ring.decrypt(AES_PROVIDER, b"\xff" * 128)

    def test_nothing_secret_is_shown(self) -> None:
        """Not even the numbers."""
        self.assertEqual(repr(self.ring()), "<KeyRing of 2 keys>")


class LibraryTests(SynchronousTestCase):
    """The version of OpenSSL on which the defence against padding oracles rests."""

    def test_an_old_library_is_refused(self) -> None:
        """OpenSSL 1.1.1 and 3.1 reveal whether a padding was right; 3.2 and later do not."""
        for old in (0x1010117F, 0x30100070):
            error = self.assertRaises(CipherError, check_library, old)
            self.assertIn("need 3.2 or later", str(error))
        for new in (0x30200000, 0x40000030):
            check_library(new)
