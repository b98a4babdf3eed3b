"""TLS arguments of endpoint descriptions."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.tls import TlsIdentity
from msmq.net.endpoints import parse_stream_endpoint, replace_interface, server_endpoint, split_description
from msmq.net.hosts import parse_host_entry
from msmq.net.tls import TlsClient, read_ssl_files
from msmq.wire.fingerprints import read_pins
from tests.security.tls_files import TlsFiles

PIN = "ab" * 32
SHOWN = ":".join(["AB"] * 32)


class PinTests(SynchronousTestCase):
    def test_a_pin_is_read_as_openssl_shows_it(self) -> None:
        """With or without colons, in either case, several with commas between them."""
        self.assertEqual(read_pins(SHOWN), {PIN})
        self.assertEqual(read_pins(f"{PIN}, {'01' * 32}"), {PIN, "01" * 32})

    def test_anything_else_is_no_pin(self) -> None:
        """A shorter one above all, which would pin less than it seems to."""
        for text in ("", PIN[:-2], PIN + "00", "g" * 64, f"{PIN},", "sha1:" + "ab" * 20):
            error = self.assertRaises(ValueError, read_pins, text)
            self.assertIn("not a SHA-256 fingerprint", str(error))


class ServerDescriptionTests(SynchronousTestCase):
    DESCRIPTION = f"tls:1801:interface=127.0.0.1:certificate=a.pem:privateKey=a.key:pins={PIN}"

    def test_address_of_the_listener(self) -> None:
        """Its port and interface, whose replacement keeps all else."""
        endpoint = parse_stream_endpoint(self.DESCRIPTION)
        self.assertEqual((endpoint.port, endpoint.bind_address), (1801, "127.0.0.1"))
        moved = replace_interface(self.DESCRIPTION, "127.0.0.9")
        self.assertEqual(parse_stream_endpoint(moved).bind_address, "127.0.0.9")
        self.assertEqual(split_description(moved)[1]["pins"], PIN)

    def test_says_what_is_missing(self) -> None:
        """Every mistake is named before anything listens."""
        for text, problem in (
            ("tls:1801", "names no certificate"),
            ("tls:1801:certificate=a.pem", "names no privateKey"),
            ("tls:1801:privateKey=a.pem", "names no certificate"),
            (self.DESCRIPTION + "00", "not a SHA-256 fingerprint"),
            (self.DESCRIPTION + ":sslmethod=TLSv1", "gives 'sslmethod'"),
            ("tls:certificate=a.pem:privateKey=a.key", "names no port"),
        ):
            error = self.assertRaises(ValueError, parse_stream_endpoint, text)
            self.assertIn(problem, str(error))


class SslFilesTests(SynchronousTestCase):
    """The files of C{ssl:}."""

    def test_key_with_a_passphrase(self) -> None:
        """It is refused with its name, in both forms of PEM; OpenSSL would wait for input at the terminal."""
        directory = Path(self.mktemp())
        directory.mkdir()
        files = TlsFiles.make(directory, "locked", passphrase=b"secret")
        arguments = {"privateKey": str(files.private_key), "certKey": str(files.certificate)}
        for _ in range(2):
            error = self.assertRaises(ValueError, read_ssl_files, arguments)
            self.assertIn(f"{files.private_key} has a passphrase", str(error))
            # Twisted's own reader has the settings of sslmethod.
            described = f"ssl:1801:privateKey={files.private_key}:certKey={files.certificate}"
            error = self.assertRaises(
                ValueError, server_endpoint, MemoryReactorClock(), f"{described}:sslmethod=TLSv1_2_METHOD"
            )
            self.assertIn("has a passphrase", str(error))
            key = load_pem_private_key(files.private_key.read_bytes(), b"secret")
            older = key.private_bytes(
                Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"secret")
            )
            files.private_key.write_bytes(older)
        TlsFiles.make(directory, "locked")
        self.assertIsNotNone(read_ssl_files(arguments))


class ClientDescriptionTests(SynchronousTestCase):
    def test_reads_all_of_it(self) -> None:
        """Host, port, pins, what it shows, and where it leaves from."""
        entry = parse_host_entry(
            f"tls:beta.example.com:1802:pins={PIN}:certificate=a.pem:privateKey=a.key:bindAddress=127.0.0.3"
        )
        identity = TlsIdentity(Path("a.pem"), Path("a.key"))
        self.assertEqual(
            entry.tls, TlsClient("beta.example.com", 1802, frozenset([PIN]), identity, "127.0.0.3")
        )

    def test_without_pins_it_is_twisteds_own(self) -> None:
        """Which trusts the system's CA certificates."""
        entry = parse_host_entry("tls:beta.example.com:1802")
        self.assertEqual((entry.tls, entry.description), (None, "tls:beta.example.com:1802"))

    def test_says_what_is_wrong(self) -> None:
        """Every mistake is named before a connection is attempted."""
        for text, problem in (
            (f"tls:beta:pins={PIN}", "names the port ''"),
            (f"tls:beta:0:pins={PIN}", "names the port '0'"),
            (f"tls::1801:pins={PIN}", "names no host"),
            (f"tls:beta:1801:9:pins={PIN}", "one host and one port"),
            (f"tls:beta:1801:port=2:pins={PIN}", "gives 'port'"),
            (f"tls:beta:1801:trustRoots=x:pins={PIN}", "gives 'trustRoots'"),
            ("tls:beta:1801:pins=", "not a SHA-256 fingerprint"),
            (f"tls:beta:1801:pins={PIN}:certificate=a.pem", "names no privateKey"),
        ):
            error = self.assertRaises(ValueError, parse_host_entry, text)
            self.assertIn(problem, str(error))
