"""Tests of the queue manager's identifier."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.service.data_directory.identity import (
    IdentityError,
    has_identity,
    identity_path,
    load_identity,
)

FIRST = UUID("11111111-2222-4333-8444-555555555555")
SECOND = UUID("66666666-7777-4888-9999-aaaaaaaaaaaa")


class IdentityTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = Path(self.mktemp()).absolute()
        self.data.mkdir()

    def test_is_made_once_and_kept(self) -> None:
        """[MS-MQQB] note 53: the identifier is made at the first start and is the same ever after."""
        self.assertEqual(load_identity(self.data, lambda: FIRST), FIRST)
        self.assertEqual(load_identity(self.data, lambda: SECOND), FIRST)

    def test_two_installations_differ(self) -> None:
        """Each data directory has an identifier of its own."""
        other = self.data / "other"
        other.mkdir()
        self.assertNotEqual(load_identity(self.data), load_identity(other))

    def test_not_to_be_seen(self) -> None:
        """A file that cannot be looked at is not reported as missing."""
        path = identity_path(self.data)
        path.symlink_to(path)
        with self.assertRaisesRegex(IdentityError, f"{path}: Too many levels of symbolic links"):
            has_identity(self.data)

    def test_is_readable_json_for_its_user_only(self) -> None:
        """The file has the GUID in braces, and no other file is left."""
        load_identity(self.data, lambda: FIRST)
        path = identity_path(self.data)
        self.assertEqual(
            json.loads(path.read_text()), {"identifier": "{11111111-2222-4333-8444-555555555555}"}
        )
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual([entry.name for entry in self.data.iterdir()], ["identity.json"])

    def test_an_unfinished_file_is_no_identity(self) -> None:
        """A process that dies while it writes leaves nothing that a later start would believe."""
        (self.data / "identity.json.new").write_text('{"ident')
        self.assertEqual(load_identity(self.data, lambda: SECOND), SECOND)

    def test_a_damaged_file_is_refused_by_name(self) -> None:
        """A damaged identity is never replaced by a new one."""
        path = identity_path(self.data)
        for content in (
            b"",
            b"{}",
            b"[]",
            b"null",
            b'{"identifier": 5}',
            b'{"identifier": "x"}',
            b'{"identifier": "00000000-0000-0000-0000-000000000000"}',
            b"\xff",
            b'{"identifier": "11111111-2222-4333-8444-555555555555"',
        ):
            path.write_bytes(content)
            error = self.assertRaises(IdentityError, load_identity, self.data)
            self.assertIn(f"{path} is damaged", str(error))
            self.assertEqual(path.read_bytes(), content)

    def test_a_file_that_cannot_be_read_is_refused_by_name(self) -> None:
        """A directory instead of it is refused."""
        identity_path(self.data).mkdir()
        error = self.assertRaises(IdentityError, load_identity, self.data)
        self.assertEqual(str(error), f"{identity_path(self.data)}: Is a directory")

    def test_a_directory_that_cannot_be_written_is_refused_by_name(self) -> None:
        """A failure to keep a new identity is reported, not ignored."""
        missing = self.data / "missing"
        error = self.assertRaises(IdentityError, load_identity, missing)
        self.assertEqual(str(error), f"{identity_path(missing)}: No such file or directory")

    @given(st.binary(max_size=60))
    def test_any_content_is_an_identity_or_refused(self, content: bytes) -> None:
        """No content of the file breaks the start in another way."""
        identity_path(self.data).write_bytes(content)
        try:
            load_identity(self.data)
        except IdentityError:
            pass
