"""The content of a keytab is checked before a domain controller is queried."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.transport.kerberos.keytab import (
    LONGEST_KEYTAB,
    KeytabError,
    choose_principal,
    principals_of,
    read_principal,
)
from tests.directory.ldap.kerberos.keytabs import keytab, keytab_entry

ALPHA = "ALPHA$@EXAMPLE.COM"
HOST = "host/alpha.example.com@EXAMPLE.COM"


class KeytabTests(SynchronousTestCase):
    """Principals of a keytab, and which one is used."""

    def test_principals(self) -> None:
        """Each principal is listed once, for any number of keys; deleted entries are skipped."""
        hole = struct.pack(">i", -7) + b"deleted"
        data = keytab(keytab_entry(ALPHA), keytab_entry(ALPHA, version=2), hole, keytab_entry(HOST))
        self.assertEqual(principals_of(data), (ALPHA, HOST))
        self.assertEqual(principals_of(data + struct.pack(">i", 0) + b"rest"), (ALPHA, HOST))

    def test_choice(self) -> None:
        """The only principal needs no setting; of several the setting names one."""
        for found, wanted, chosen in (
            ((ALPHA,), "", ALPHA),
            ((ALPHA, HOST), ALPHA, ALPHA),
            ((ALPHA, HOST), "host/alpha.example.com", HOST),
        ):
            self.assertEqual(choose_principal(found, wanted), chosen)

    def test_no_choice(self) -> None:
        """A principal that is missing or not unique is an error that lists what the keytab has."""
        many = tuple(f"u{number}@EXAMPLE.COM" for number in range(7))
        for found, wanted, reported in (
            ((), "", "has no key"),
            ((ALPHA, HOST), "", f"has keys of {ALPHA}, {HOST}; set principal to one of them"),
            ((ALPHA,), "BETA$@EXAMPLE.COM", f"no key of the principal BETA$@EXAMPLE.COM; it has {ALPHA}"),
            ((ALPHA, "ALPHA$@OTHER"), "ALPHA$", f"has keys of {ALPHA}, ALPHA$@OTHER"),
            (many, "x", "u4@EXAMPLE.COM and 2 more"),
        ):
            error = self.assertRaises(KeytabError, choose_principal, found, wanted)
            self.assertIn(reported, str(error))

    def test_damaged(self) -> None:
        """A file that is not a keytab, or breaks off, is an error with what to do."""
        whole = keytab(keytab_entry(ALPHA))
        for data, reported in (
            (b"", "not a keytab of version 2"),
            (b"hunter2", "not a keytab of version 2"),
            (whole[:-1], "export it again"),
            (whole[:4], "export it again"),
            (keytab(keytab_entry("a\x1bb@R")), "export it again"),
            (keytab(struct.pack(">iHH", 4, 9, 9)), "export it again"),
        ):
            error = self.assertRaises(KeytabError, principals_of, data)
            self.assertIn(reported, str(error))

    def test_file(self) -> None:
        """Errors name the file."""
        path = Path(self.mktemp())
        error = self.assertRaises(KeytabError, read_principal, path, "")
        self.assertEqual(str(error), f"keytab {path}: No such file or directory")
        path.write_bytes(keytab(keytab_entry(ALPHA)))
        self.assertEqual(read_principal(path, ""), ALPHA)
        error = self.assertRaises(KeytabError, read_principal, path, "b")
        self.assertTrue(str(error).startswith(f"keytab {path} has no key of the principal b"))
        path.write_bytes(b"\x05\x02" + bytes(LONGEST_KEYTAB))
        error = self.assertRaises(KeytabError, read_principal, path, "")
        self.assertIn(f"more than {LONGEST_KEYTAB} bytes", str(error))

    @given(st.binary(max_size=200))
    def test_any_bytes(self, data: bytes) -> None:
        """Any file is read or refused as a keytab."""
        for each in (data, b"\x05\x02" + data):
            try:
                principals_of(each)
            except KeytabError:
                pass
