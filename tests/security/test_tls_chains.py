"""The certificates behind that of a peer: they change nothing, and cost nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.tls import TlsIdentity
from msmq.security.tls import PinnedTls
from tests.security.tls_files import TlsFiles

LENGTH = 40


class WatchedTls(PinnedTls):
    """Records which certificates OpenSSL verified, each with its distance from that of the peer.

    @ivar depths: in the order in which it asked about them.
    """

    def __init__(self, refused: Callable[[str, str], object]) -> None:
        super().__init__(refused)
        self.depths: list[int] = []

    def _verification(self, pins: frozenset[str]) -> Callable[..., bool]:
        judge = super()._verification(pins)

        def watching(*arguments: object) -> bool:
            depth = arguments[3]
            assert isinstance(depth, int)
            self.depths.append(depth)
            return judge(*arguments)

        return watching


def make_chain() -> tuple[ec.EllipticCurvePrivateKey, list[x509.Certificate]]:
    """A key, its certificate, and those of all issuers above it."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(LENGTH + 1)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"number {number}")])
        for number in range(LENGTH + 1)
    ]
    now = datetime.now(UTC)
    chain = [
        x509.CertificateBuilder()
        .subject_name(names[number])
        .issuer_name(names[number + 1])
        .public_key(keys[number].public_key())
        .serial_number(number + 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=number > 0, path_length=None), critical=True)
        .sign(keys[number + 1], hashes.SHA256())
        for number in range(LENGTH)
    ]
    return keys[0], chain


class ChainTests(SynchronousTestCase):
    """A client shows a server the longest chain that it can."""

    def setUp(self) -> None:
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, directory)
        files = TlsFiles.make(directory, "server")
        self.identity = TlsIdentity(files.certificate, files.private_key)
        self.key, self.chain = make_chain()
        self.refused: list[str] = []
        self.tls = WatchedTls(lambda address, why: self.refused.append(why))

    def connect(self, pin: str) -> bool:
        """Whether a server that knows this certificate takes the client."""
        creator: IOpenSSLServerConnectionCreator = self.tls.server(self.identity, frozenset([pin]))
        factory = TLSMemoryBIOFactory(creator, False, Factory.forProtocol(Protocol))
        protocol = factory.buildProtocol(None)
        transport = StringTransport()
        protocol.makeConnection(transport)
        context = SSL.Context(SSL.TLS_METHOD)
        context.use_certificate(crypto.X509.from_cryptography(self.chain[0]))
        context.use_privatekey(crypto.PKey.from_cryptography_key(self.key))
        for certificate in self.chain[1:]:
            context.add_extra_chain_cert(crypto.X509.from_cryptography(certificate))
        client = SSL.Connection(context, None)
        client.set_connect_state()
        try:
            for _ in range(4):
                try:
                    client.do_handshake()
                except SSL.WantReadError:
                    pass
                try:
                    protocol.dataReceived(client.bio_read(1 << 20))
                except SSL.WantReadError:
                    pass
                if transport.value():
                    client.bio_write(transport.value())
                    transport.clear()
            client.recv(1)
        except SSL.WantReadError:
            return True
        except SSL.Error:
            return False
        raise AssertionError("the server said something")

    def test_pinned(self) -> None:
        """A pinned certificate is accepted, from any issuer."""
        self.assertTrue(self.connect(self.chain[0].fingerprint(hashes.SHA256()).hex()))
        self.assertEqual(self.refused, [])

    def test_pinned_in_the_chain(self) -> None:
        """Only the peer's own certificate can be pinned."""
        for certificate in (self.chain[1], self.chain[-1]):
            self.assertFalse(self.connect(certificate.fingerprint(hashes.SHA256()).hex()))
        self.assertEqual(len(self.refused), 2)

    def test_the_chain_is_not_verified(self) -> None:
        """Each of its signatures would take the reactor's time before the certificate itself is looked at."""
        self.assertFalse(self.connect("0" * 64))
        self.assertIn(0, self.tls.depths)
        self.assertLessEqual(max(self.tls.depths), 1)
        self.assertLess(len(self.tls.depths), 6)
