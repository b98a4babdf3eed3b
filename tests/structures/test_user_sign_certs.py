"""[MS-MQMQ] 2.2.21 and 2.2.22: the certificates of a user."""

from __future__ import annotations

import hashlib
from struct import pack
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import INITIATOR as GUID

CERTIFICATE = MqUserSignCert.of(b"\x30\x03\x02\x01\x05", GUID)
OTHER = MqUserSignCert.of(b"", UUID(int=1))


class MqUserSignCertsTests(SynchronousTestCase):
    """L{MqUserSignCerts}."""

    @given(st.lists(st.builds(MqUserSignCert.of, st.binary(max_size=20), st.uuids()), max_size=3).map(tuple))
    def test_any_certificates_are_read_back(self, certificates: tuple[MqUserSignCert, ...]) -> None:
        """In their order."""
        structure = MqUserSignCerts(certificates)
        self.assertEqual(MqUserSignCerts.from_bytes(structure.to_bytes()), structure)

    @given(st.binary(max_size=60))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No directory can cause any other error."""
        assert_only_remote_errors(MqUserSignCerts.read, data)

    def test_says_how_many_certificates_follow(self) -> None:
        """MQMQ-2.2.21-01: none, one or three, back to back; no more than there are."""
        for certificates in ((), (CERTIFICATE,), (CERTIFICATE, OTHER, CERTIFICATE)):
            structure = MqUserSignCerts(certificates)
            entries = b"".join(certificate.to_bytes() for certificate in certificates)
            self.assertEqual(structure.to_bytes(), pack("<I", len(certificates)) + entries)
            assert_read_three_ways(self, structure)
            wrong = pack("<I", len(certificates) + 1) + entries
            self.assertRaises(RemoteProtocolError, MqUserSignCerts.from_bytes, wrong)

    def test_a_certificate_has_a_digest_an_identifier_and_a_length(self) -> None:
        """MQMQ-2.2.22-01: at 0, 16 and 32; the certificate follows at 36."""
        data = CERTIFICATE.to_bytes()
        self.assertEqual(data[:16], CERTIFICATE.digest)
        self.assertEqual(data[16:32], GUID.bytes_le)
        self.assertEqual(data[32:], pack("<I", 5) + b"\x30\x03\x02\x01\x05")
        assert_read_three_ways(self, CERTIFICATE)

    def test_the_digest_is_the_md5_of_the_certificate(self) -> None:
        """MQMQ-2.2.22-02: of its bytes as they are."""
        self.assertEqual(CERTIFICATE.digest, hashlib.md5(b"\x30\x03\x02\x01\x05").digest())

    def test_a_digest_has_sixteen_bytes(self) -> None:
        """Another cannot be written."""
        self.assertRaises(LocalProtocolError, MqUserSignCert, bytes(15), GUID, b"")
