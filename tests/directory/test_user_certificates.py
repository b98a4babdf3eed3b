"""The certificate files that an enterprise file names."""

from __future__ import annotations

import ssl
from pathlib import Path

from msmq.directory.enterprise_file import check_enterprise, load_enterprise
from msmq.directory.file_stamp import FileStamp
from msmq.membership.objects import UserObject
from tests.directory.test_enterprise_file import CERTIFICATES, WHOLE, EnterpriseFileTests, certificate_with


class UserCertificateTests(EnterpriseFileTests):
    """Which bytes of a file are the certificate of its user."""

    def test_certificate_files(self) -> None:
        """Of a chain the first certificate is used, with text and a key around it; a key alone is refused."""
        path = self.written(WHOLE)
        der = b"\x30\x06\x30\x04leaf"
        chain = "".join(ssl.DER_cert_to_PEM_cert(each) for each in (der, b"\x30\x03two"))
        key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
        for text in (chain, key + chain, f"Certificate:\n{chain}{key}"):
            path.with_name("one.pem").write_text(text)
            user = load_enterprise(path).objects[-1]
            assert isinstance(user, UserObject)
            self.assertEqual(user.certificates.certificates[0].certificate, der, text)
        other = "has no certificate, but a key"
        signed_data = b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02"
        encrypted_key = b"\x30\x0a\x30\x05\x06\x01\x2a\x30\x00\x04\x01\x00"
        request = b"\x30\x0b\x30\x09\x02\x01\x00\x30\x00\x30\x00\xa0\x00"
        revocation_list = b"\x30\x0b\x30\x09\x02\x01\x01\x30\x00\x30\x00\x17\x00"
        for name, content, problem in (
            ("one.pem", key.encode(), "has no certificate"),
            ("two.der", b"\x30\x82\x00\x03\x02\x01\x00", other),
            ("two.der", signed_data, other),
            ("two.der", encrypted_key, other),
            ("two.der", request, other),
            ("two.der", revocation_list, other),
            ("two.der", CERTIFICATES["two.der"][:-1], "is incomplete"),
        ):
            path = self.written(WHOLE)
            path.with_name(name).write_bytes(content)
            [found] = check_enterprise(path)
            self.assertIn(problem, found.problem)

    def test_certificate_in_der(self) -> None:
        """What follows a certificate in DER is no part of it: the one of a message has to equal it. One of
        version 1 has no field for its version.
        """
        path = self.written(WHOLE)
        old = b"\x30\x0d\x30\x0b\x02\x01\x01\x30\x00\x30\x00\x30\x00\x30\x00"
        for wanted in (CERTIFICATES["one.pem"], old):
            path.with_name("two.der").write_bytes(wanted + b"\n")
            user = load_enterprise(path).objects[-1]
            assert isinstance(user, UserObject)
            self.assertEqual(user.certificates.certificates[1].certificate, wanted)

    def test_replaced_while_it_is_read(self) -> None:
        """A file of two users that is replaced between them is the former one for both, with its stamp: so it
        is read again, and neither keeps a certificate that has been replaced.
        """
        path = self.written(f'{WHOLE}[[user]]\nsid = "S-1-5-21-1-2-3-1002"\ncertificates = ["two.der"]\n')
        file = path.with_name("two.der")
        stamp, read = FileStamp.of(file), Path.read_bytes

        def read_and_replace(self: Path) -> bytes:
            content = read(self)
            if self == file:
                file.write_bytes(certificate_with(b"renewed"))
            return content

        self.patch(Path, "read_bytes", read_and_replace)
        loaded = load_enterprise(path)
        users = [each for each in loaded.objects if isinstance(each, UserObject)]
        found = [user.certificates.certificates[-1].certificate for user in users]
        self.assertEqual(found, [CERTIFICATES["two.der"]] * 2)
        self.assertEqual(loaded.certificates["two.der"], CERTIFICATES["two.der"])
        self.assertEqual(loaded.certificate_stamps["two.der"], stamp)
