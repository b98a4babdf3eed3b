"""The verbs that need no server: decode and config check."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from msmq.cli.enterprise.ping import _addresses, _split
from msmq.cli.messages.receive import readable_message
from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_file import TokenFile
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA, establish, user_packet
from tests.cli.support import CommandTestCase

PACKETS = establish(ALPHA) + user_packet(b"hello", label="L")


class ReceivedTests(CommandTestCase):
    """Output of C{receive} for a message with a hostile body."""

    def test_what_was_decoded_is_json_on_lines_of_its_own(self) -> None:
        """A text that breaks lines for Unicode, or that a terminal obeys, stays inside its quotes."""
        lines = readable_message(
            {"id": "{7}\\1", "decoded": {"format": "json", "value": "a\u2028label  paid\x85\x9b2J\x1b"}},
            utc=True,
        ).split("\n")
        self.assertEqual(
            lines[lines.index("{") :],
            ["{", '  "format": "json",', '  "value": "a\\u2028label  paid\\x85\\x9b2J\\u001b"', "}", ""],
        )


class DecodeTests(CommandTestCase):
    """Packets as JSON lines."""

    def file(self, content: bytes) -> str:
        path: str = self.mktemp()
        Path(path).write_bytes(content)
        return path

    def test_raw_stream(self) -> None:
        """Each packet of a stream is a line with its offset and its headers."""
        ended = self.msmq("decode", self.file(PACKETS))
        self.assertEqual((ended.status, ended.errors), (0, ""))
        first, second = ended.objects
        self.assertEqual((first["offset"], second["offset"]), (0, 572))
        self.assertIn("BaseHeader", first)
        self.assertIn("UserHeader", second)

    def test_standard_input(self) -> None:
        """Without a file, or with -, the packets come from standard input."""
        expected = self.msmq("decode", self.file(PACKETS)).output
        self.assertEqual(self.msmq("decode", input=PACKETS).output, expected)
        self.assertEqual(self.msmq("decode", "-", "--json", input=PACKETS).output, expected)

    def test_anonymise(self) -> None:
        """--anonymise writes a new file, prints what is in it, and never replaces a file."""
        copy = Path(self.mktemp())
        ended = self.msmq("decode", self.file(PACKETS + b"rest"), "--anonymise", str(copy), "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertEqual(
            ended.objects,
            [{"file": str(copy), "packets": 2, "cleared_bytes": 4, "omitted_frames": 0}],
        )
        first = copy.read_bytes()
        self.assertEqual(len(first), len(PACKETS) + 4)
        self.assertNotIn(b"hello", first)
        again = self.msmq("decode", self.file(PACKETS), "--anonymise", str(copy))
        self.assertEqual((again.status, copy.read_bytes()), (2, first))
        self.assertIn("File exists", again.errors)

    def test_fields(self) -> None:
        """--fields adds the position of each field, up to the end of the packet."""
        for line in self.msmq("decode", "--fields", input=PACKETS).output.splitlines():
            record = json.loads(line)
            last = record["fields"][-1]
            self.assertEqual(last["offset"] + last["size"], record["size"])

    def test_hex_text(self) -> None:
        """Hex text is recognised, and can be insisted on."""
        expected = self.msmq("decode", input=PACKETS).output
        text = PACKETS.hex(" ").encode("ascii")
        self.assertEqual(self.msmq("decode", input=text).output, expected)
        self.assertEqual(self.msmq("decode", "--hex", input=text).output, expected)

    def test_malformed_packet(self) -> None:
        """A malformed packet is a line with the rule that it breaks, and status 1."""
        ended = self.msmq("decode", "-", input=b"\x11" + PACKETS[1:])
        self.assertEqual(ended.status, 1)
        [malformed, *_] = [line for line in ended.objects if "rule" in line]
        self.assertEqual((malformed["offset"], malformed["field"]), (0, "VersionNumber"))
        self.assertRegex(ended.errors, r"^msmq decode: \d+ malformed in -\n$")

    def test_text_that_is_not_hex(self) -> None:
        """C{--hex} with other text is reported as malformed input, not as an internal error."""
        self.assertEqual(self.msmq("decode", "--hex", input=b"hello, world").status, 1)

    def test_empty_input(self) -> None:
        """No bytes are no packets."""
        ended = self.msmq("decode", input=b"")
        self.assertEqual((ended.status, ended.output), (0, ""))


class ConfigCheckTests(CommandTestCase):
    """C{msmq config check}: problems of a configuration."""

    def file(self, text: str) -> str:
        path: str = self.mktemp()
        Path(path).write_text(text)
        return path

    def test_good_file(self) -> None:
        """A file without faults is status 0."""
        path = self.file('[queue_manager]\nname = "ALPHA"\n')
        self.assertEqual(self.msmq("config", "check", path), self.msmq("config", "check", path))
        self.assertEqual(self.msmq("config", "check", path).status, 0)
        self.assertEqual(self.msmq("config", "check", path, "--json").output, "")

    def test_faults_have_their_lines(self) -> None:
        """Every fault is reported with its file, line and key, and the status is 1."""
        path = self.file('[queue_manager]\nnmae = "ALPHA"\n\n[listen]\nping = 7\n')
        ended = self.msmq("config", "check", path)
        self.assertEqual(ended.status, 1)
        first, second = ended.output.splitlines()
        self.assertTrue(first.startswith(f"{path}:2: queue_manager.nmae: "))
        self.assertTrue(second.startswith(f"{path}:5: listen.ping: "))
        self.assertEqual(ended.errors, f"msmq config check: {first}, and 1 more\n")

    def test_faults_on_a_terminal(self) -> None:
        """A terminal shows both streams, so that a fault is printed once."""
        path = self.file("name = ALPHA\n")
        reader, writer = os.openpty()
        self.addCleanup(os.close, reader)
        with os.fdopen(writer, "wb") as terminal:
            ended = subprocess.run(
                [sys.executable, "-m", "msmq.cli", "config", "check", path],
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
                check=False,
            )
            shown = os.read(reader, 10_000).decode()
        self.assertEqual((ended.returncode, shown.count("is not TOML")), (1, 1), shown)

    def test_faults_as_json(self) -> None:
        """With --json each fault is an object."""
        path = self.file('[queue_manager]\nnmae = "ALPHA"\n')
        ended = self.msmq("--json", "config", "check", path)
        [fault] = ended.objects
        self.assertEqual((fault["path"], fault["line"], fault["key"]), (path, 2, "queue_manager.nmae"))
        self.assertIs(fault["warning"], False)

    def test_a_warning_is_no_fault(self) -> None:
        """A server that others reach without trusted peers in its configuration: reported, with status 0."""
        path = self.file('[queue_manager]\nname = "ALPHA"\n[listen]\nsession = "tcp:1801"\n')
        ended = self.msmq("config", "check", path)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertTrue(
            ended.output.startswith(f"{path}:4: listen.session: is TCP *:1801, which other hosts can reach")
        )
        [warning] = self.msmq("config", "check", path, "--json").objects
        self.assertEqual((warning["line"], warning["key"], warning["warning"]), (4, "listen.session", True))

    def test_missing_file(self) -> None:
        """A file that cannot be read is a fault that names it."""
        ended = self.msmq("config", "check", "/nonexistent")
        self.assertEqual(ended.status, 1)
        self.assertIn("/nonexistent", ended.errors)


class PingTests(CommandTestCase):
    """The argument of C{msmq ping}."""

    def test_host_and_port(self) -> None:
        """A host may have a port; an IPv6 address needs brackets for one."""
        for text, host, port in (
            ("alpha", "alpha", None),
            ("alpha:3527", "alpha", 3527),
            ("127.0.0.2", "127.0.0.2", None),
            ("127.0.0.2:1", "127.0.0.2", 1),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:9", "::1", 9),
        ):
            with self.subTest(text=text):
                self.assertEqual(_split(text), (host, port))

    def test_unknown_host(self) -> None:
        """An unknown name is refused and named."""
        with self.assertRaises(MQError) as raised:
            _addresses("nowhere.invalid")
        self.assertEqual(raised.exception.status, Status.MQ_ERROR_MACHINE_NOT_FOUND)
        self.assertIn("nowhere.invalid", raised.exception.detail)

    def test_address_is_itself(self) -> None:
        """An address is asked as it is."""
        self.assertEqual(_addresses("127.0.0.2"), ["127.0.0.2"])


class TokenTests(CommandTestCase):
    """Tokens for callers of a server."""

    def test_new(self) -> None:
        """The printed line accepts the printed token, and does not have it."""
        ended = self.msmq("token", "new", "desk", "--role", "operator", "--expires", "2999-01-31", "--json")
        [found] = ended.objects
        self.assertNotIn(found["token"], found["line"])
        path = Path(self.mktemp())
        path.touch(0o600)
        path.write_text(found["line"])
        holder = TokenFile(path).holder_with(sha256(found["token"].encode()).digest())
        assert holder is not None
        self.assertEqual((holder.name, holder.role), ("token desk", Role.OPERATOR))
        [expiry] = TokenFile(path).expiries(0.0)
        self.assertEqual(expiry.not_after, datetime(2999, 1, 31, tzinfo=UTC).timestamp())
        [other] = self.msmq("token", "new", "desk", "--expires", "90d", "--json").objects
        self.assertNotEqual(other["token"], found["token"])
        self.assertRegex(other["line"], "^desk reader sha256:[0-9a-f]{64} expires=.*Z$")

    def test_wrong_calls(self) -> None:
        """They are one line and status 2."""
        for arguments, words in (
            (["a b"], "the name of token 1"),
            (["x" * 40], "the name of token 1"),
            (["desk", "--expires", "soon"], "neither a time as"),
            (["desk", "--expires", "2001-01-01"], "is in the past"),
        ):
            self.assert_refused(["token", "new", *arguments], 2, words)
