"""Servers as processes: signed and encrypted messages arrive authenticated and decrypted, forged ones
do not.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.prepared import PreparedProcess, run

PROGRAMS = Path(sys.executable).parent
ORDERS = ".\\private$\\orders"
ALICE = "S-1-5-21-1-2-3-1001"
NAMES = ("ALPHA", "BETA", "MALLORY")
BODIES = [f"order {number}" for number in range(5)]


class SecuredTransferTests(SynchronousTestCase):
    """ALPHA and MALLORY send to BETA; the enterprise file has the certificate of Alice, who is at ALPHA."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.addresses = {name: own_address(number) for number, name in enumerate(NAMES, 21)}
        self.servers: dict[str, subprocess.Popen[str]] = {}

    def write_estate(self, keys: str = "", users: str = "") -> None:
        """The enterprise file, with what BETA and the users have published."""
        text = '[enterprise]\nid = "0f8f7a50-5a1b-4c4e-9d3b-0000000000e4"\n'
        text += '[[site]]\nname = "Berlin"\nid = "0f8f7a50-5a1b-4c4e-9d3b-0000000000b4"\n'
        for number, name in enumerate(NAMES, 1):
            text += (
                f'[[queue_manager]]\nname = "{name}"\nid = "0f8f7a50-5a1b-4c4e-9d3b-0000000004d{number}"\n'
            )
            text += f'address = "{self.addresses[name]}"\nsites = ["Berlin"]\n'
            text += keys if name == "BETA" else ""
        (self.directory / "estate.toml").write_text(text + users)

    def start(self, name: str) -> str:
        """Start a server; what it has said when it is ready, or has ended."""
        process = PreparedProcess(
            [
                *(os.fspath(PROGRAMS / "twistd"), "-n", "--pidfile=", "msmq", "--name", name),
                *("--data", name.lower(), "--address", self.addresses[name]),
                *("--directory", "file:estate.toml"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
        )
        self.servers[name] = process
        self.addCleanup(self.stop, name)
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "store " in line:
                break
        return output

    def stop(self, name: str) -> None:
        process = self.servers.pop(name, None)
        if process is not None:
            process.terminate()
            process.communicate(timeout=DEADLINE)

    def msmq(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        """Run the command, which prints JSON."""
        done = run(
            [PROGRAMS / "msmq", "--data", name.lower(), "--json", *arguments],
            timeout=DEADLINE,
            cwd=self.directory,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def furnish(self) -> None:
        """Keys and certificates are made, and all that others have to know of them stands in the file."""
        self.write_estate()
        for name in NAMES:
            self.start(name)
        for name in ("ALPHA", "MALLORY"):
            self.msmq(name, "certificate", "create", "--sid", ALICE)
        [shown] = self.msmq("ALPHA", "certificate", "list")
        (self.directory / "alice.der").write_bytes(base64.b64decode(shown["certificate_base64"]))
        self.msmq("BETA", "queue", "create", ORDERS, "--transactional", "--authenticate", "--privacy", "body")
        keys = (self.directory / "beta" / "keys" / "encryption-keys.txt").read_text().strip()
        self.write_estate(
            f'encryption_keys = "{keys}"\n', f'[[user]]\nsid = "{ALICE}"\ncertificates = ["alice.der"]\n'
        )
        for name in NAMES:
            self.stop(name)
            self.start(name)

    def send(self, name: str, queue: str, body: str) -> str:
        """Send one as both, in a transaction, with the one certificate that the server has."""
        [certificate] = self.msmq(name, "certificate", "list")
        [sent] = self.msmq(
            name,
            *("send", queue, "--body", body, "--transactional", "--sign", "2.0", "--encrypt", "advanced"),
            *("--certificate", certificate["fingerprint"][:16]),
        )
        identifier: str = sent["id"]
        return identifier

    def events(self, name: str, identifier: str) -> list[dict[str, Any]]:
        """A server's output about a message."""
        [reported] = self.msmq(name, "explain", identifier)
        events: list[dict[str, Any]] = reported["events"]
        return events

    def test_signed_and_encrypted(self) -> None:
        """In their order, as Alice's; what MALLORY sends in her name is refused, and both can tell."""
        self.furnish()
        [shown] = self.msmq("BETA", "queue", "show", ORDERS)
        queue = shown["format_name"]
        for body in BODIES:
            self.send("ALPHA", queue, body)
        found = self.msmq("BETA", "receive", ORDERS, "--count", str(len(BODIES)), "--timeout", str(DEADLINE))
        self.assertEqual([message["body"] for message in found], BODIES)
        self.assertEqual({message["authenticated"] for message in found}, {True})
        self.assertEqual({message["sender_id"] for message in found}, {ALICE})

        forged = self.send("MALLORY", queue, "all of it to me")
        events: list[dict[str, Any]] = []
        for _ in range(DEADLINE):
            events = self.events("MALLORY", forged)
            if events:
                break
            self.msmq("BETA", "status")
        self.assertEqual([event["class"] for event in events if event["event"] == "failed"], [0x8006])
        [refused] = self.events("BETA", forged)
        self.assertEqual(refused["class"], 0x8006)
        self.assertIn("NACK_BAD_SIGNATURE", refused["reason"])
        self.assertIn("certificate", refused["reason"])
        self.assertEqual(self.msmq("BETA", "queue", "show", ORDERS)[0]["messages"], 0)

        for path in (self.directory / "beta" / "keys").glob("*.pem"):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.stop("BETA")
        damaged = self.directory / "beta" / "keys" / "encryption-aes.pem"
        damaged.write_text("rubbish")
        output = self.start("BETA")
        self.assertIn(f"{damaged.name} is damaged", output)
        self.assertNotIn("Traceback", output)
        self.assertEqual(damaged.read_text(), "rubbish")
