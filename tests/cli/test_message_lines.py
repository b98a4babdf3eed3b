"""Messages from the lines of a file, before anything is sent."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import tempfile
import threading
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.messages.message_lines import LONGEST, DamagedLine, MessageLines
from tests.cli.support import CommandTestCase

RECEIVED = {
    "id": "{11111111-1111-1111-1111-111111111111}\\7",
    "lookup_id": 5,
    "label": "L",
    "body": "caf\u00e9",
    "body_size": 5,
    "priority": 6,
    "class": 0,
    "sent_time": "2026-01-31T12:00:00+00:00",
    "destination_queue": "DIRECT=OS:BETA\\private$\\q",
    "admin_queue": None,
    "acknowledge": ["full-reach"],
    "extension_base64": "AAE=",
    "transaction": None,
}


def lines(*values: object, **chosen: Any) -> MessageLines:
    """Lines of a file; what is not bytes is written as JSON."""
    data = b"\n".join(each if isinstance(each, bytes) else json.dumps(each).encode() for each in values)
    reported: dict[str, Any] = {
        "defaults": {},
        "destination": "Q",
        "key": None,
        "is_json": True,
        "is_whole": False,
    }
    return MessageLines("F", io.BytesIO(data), **{**reported, **chosen})


class JsonLineTests(SynchronousTestCase):
    """Messages sent from the output of C{msmq receive --json}."""

    def test_received_message(self) -> None:
        """Its properties, body and extension are sent; what its journey gave it is not."""
        [record] = lines(RECEIVED)
        self.assertEqual(record.body, "caf\u00e9".encode() + b"\0\1")
        self.assertEqual(
            record.header,
            {
                "label": "L",
                "priority": 6,
                "acknowledge": ["full-reach"],
                "extension_size": 2,
                "destination": "Q",
            },
        )

    def test_destination(self) -> None:
        """That of the line, else that of the command, else the queue that the message was for."""
        own = {**RECEIVED, "destination": "OWN"}
        found = [record.header["destination"] for record in lines(own, RECEIVED)]
        self.assertEqual(found, ["OWN", "Q"])
        [record] = lines(RECEIVED, destination=None)
        self.assertEqual(record.header["destination"], RECEIVED["destination_queue"])

    def test_defaults_and_keys(self) -> None:
        """Options of the command apply where a line has nothing; keys name the lines, empty ones included."""
        found = lines(
            {"body": "1"}, b"", {"body": "2", "key": "own", "label": "X"}, defaults={"label": "D"}, key="K"
        )
        self.assertEqual(
            [(record.header["key"], record.header["label"]) for record in found], [("K/1", "D"), ("own", "X")]
        )

    def test_damaged_line(self) -> None:
        """Earlier lines are sent; the error names the file, the line, the reason and the sent messages."""
        for damaged, words in (
            (b"{", "not JSON"),
            (b"[" * 5000, "not JSON"),
            (b"\xff", "not JSON"),
            (b"[]", "a message is a JSON object"),
            (b'{"body": 7}', "body is text"),
            (b'{"body": "\\ud800"}', "not UTF-8"),
            (b'{"body": "", "body_base64": ""}', "not both"),
            (b'{"body_base64": "!"}', "body_base64 is not base64"),
            (b'{"extension_base64": 7}', "extension_base64 is not base64"),
            (b'{"destination": 7}', "its destination is not text"),
        ):
            source = lines({"body": "1"}, damaged, {"body": "3"})
            self.assertEqual([record.body for record in source], [b"1"])
            self.assertIn("F:2: ", str(source.damage))
            self.assertIn(words, str(source.damage))
            source.accepted()
            self.assertEqual(source.result(), "1 message of line 1 sent")

    def test_damaged_line_of_a_transaction(self) -> None:
        """No message is sent."""
        self.assertRaises(DamagedLine, list, lines({"body": "1"}, b"{", is_whole=True))

    def test_limits(self) -> None:
        """A line or a body beyond what a message can have is refused before all of it is in memory."""
        source = lines(b" " * (LONGEST + 5))
        self.assertEqual(list(source), [])
        self.assertIn("more than", str(source.damage))
        large = lines(b"x" * 0x400001, is_json=False)
        self.assertEqual(list(large), [])
        self.assertIn("F:1: body and extension", str(large.damage))


class BodyLineTests(SynchronousTestCase):
    """Lines that are bodies."""

    def test_bodies(self) -> None:
        """Each line is a body, without its end; empty ones too, and bytes that are not UTF-8."""
        found = lines(b"a\r", b"", b"\xff", is_json=False)
        self.assertEqual([record.body for record in found], [b"a", b"", b"\xff"])


class LostConnectionTests(CommandTestCase):
    """A server that goes away while it has messages."""

    def lose(self, *bodies: bytes) -> str:
        """The error of the command when the server has taken what it sends, and ends."""
        path = f"{tempfile.mkdtemp(prefix='msmq-test-')}/control.sock"
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.recv(0x10000)
                connection.sendall(b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: msmq-records\r\n\r\n")
                # The first messages, and no result of them.
                connection.recv(8)

        server = threading.Thread(target=serve)
        server.start()
        ended = self.msmq("--control", path, "send", "Q", "--lines", "-", input=b"\n".join(bodies))
        server.join()
        listening.close()
        self.assertEqual((ended.status, ended.output), (1, ""))
        return ended.errors

    def test_without_a_result(self) -> None:
        """The error does not say that nothing was sent: the server may have stored the messages."""
        errors = self.lose(b"1", b"2", b"3")
        self.assertIn("MQ_ERROR_SERVICE_NOT_AVAILABLE", errors)
        self.assertIn(
            "standard input: no message is known to be sent; lines 1 to 3 may be sent, since there is no"
            " result\n",
            errors,
        )

    def test_unreachable(self) -> None:
        """Nothing was sent where nothing was handed over."""
        self.assert_refused(
            ["--control", "/nonexistent/control.sock", "send", "Q", "--lines", "-"],
            1,
            "standard input: nothing was sent",
        )
