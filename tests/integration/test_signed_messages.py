"""Signed messages between real servers: the commands, and both sides' output about a third party's."""

from __future__ import annotations

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
ALICE, MALLORY = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
ADDRESSES = {name: own_address(41 + place) for place, name in enumerate(("ALPHA", "BETA", "GAMMA"))}
ORDERS = ".\\private$\\orders"
TO_BETA = f"DIRECT=TCP:{ADDRESSES['BETA']}\\private$\\orders"
ENTERPRISE = f"""
[enterprise]
id = "e0000000-0000-4000-8000-00000000000e"

[[site]]
name = "HERE"
id = "50000000-0000-4000-8000-000000000005"

[[queue_manager]]
name = "BETA"
id = "be7a0000-0000-4000-8000-000000000002"
sites = ["HERE"]

[[user]]
sid = "{ALICE}"
certificates = ["alice.pem"]
"""


class SignedMessagesTests(SynchronousTestCase):
    """ALPHA signs for alice, GAMMA for another user; BETA has a directory with alice."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)

    def start(self, name: str, sender: str = "", directory: str = "none") -> None:
        """Start a server and wait until it says that it is ready."""
        data = self.data / name
        data.mkdir()
        configuration = data / "msmq.toml"
        configuration.write_text(
            f'[listen]\nping = "off"\ndiscovery = "off"\n[security]\nsender = "{sender or ALICE}"\n'
        )
        process = PreparedProcess(
            [
                *(PROGRAMS / "twistd", "-n", "--pidfile=", "msmq", "--name", name, "--data", data),
                *("--address", ADDRESSES[name], "--directory", directory, "--config", configuration),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=data,
        )
        self.addCleanup(self.kill, process)
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if "store " in line:
                return
        raise self.failureException(output)

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate(timeout=DEADLINE)

    def run_msmq(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(
            [PROGRAMS / "msmq", "--data", self.data / name, *arguments],
            timeout=DEADLINE,
        )

    def msmq(self, name: str, *arguments: str) -> list[dict[str, Any]]:
        """Run the command, which prints JSON."""
        done = self.run_msmq(name, "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_signed_messages(self) -> None:
        """Transactional messages of alice arrive authenticated; those of a third party do not arrive.

        A queue manager that signed for alice without having her key is refused; both sides say why.
        """
        self.start("ALPHA")
        self.start("GAMMA")
        [made] = self.msmq("ALPHA", "certificate", "create", "--name", "Alice")
        self.assertEqual((made["subject"], made["sid"], made["internal"]), ("CN=Alice", ALICE, True))
        self.assertTrue(made["valid"])
        self.assertNotIn("private", json.dumps(made))
        again = self.run_msmq("ALPHA", "certificate", "create")
        self.assertEqual(again.returncode, 1)
        self.assertIn("MQ_ERROR_INTERNAL_USER_CERT_EXIST", again.stderr)
        pem = self.run_msmq("ALPHA", "certificate", "show", "--pem").stdout
        self.assertTrue(pem.startswith("-----BEGIN CERTIFICATE-----\n"), pem)
        (self.data / "alice.pem").write_text(pem)
        (self.data / "enterprise.toml").write_text(ENTERPRISE)
        self.start("BETA", directory=f"file:{self.data / 'enterprise.toml'}")
        self.msmq("BETA", "queue", "create", ORDERS, "--transactional", "--authenticate")
        self.msmq("GAMMA", "certificate", "create", "--name", "Alice")

        common = ("--transactional", "--dead-letter")
        sent = self.msmq(
            "ALPHA", "send", TO_BETA, *common, "--sign", "2.0", "--count", "3", "--body", "order"
        )
        found = self.msmq("BETA", "receive", ORDERS, "--count", "3", "--timeout", str(DEADLINE))
        self.assertEqual([message["id"] for message in found], [each["id"] for each in sent])
        self.assertEqual({message["authenticated"] for message in found}, {True})
        self.assertEqual({message["sender_id"] for message in found}, {ALICE})

        refused: list[tuple[str, str]] = []
        for name, options, reason in (
            ("GAMMA", ("--sign", "3.0"), f"is not one of the 1 that the directory has for {ALICE}"),
            ("ALPHA", (), "accepts only authenticated messages, and it is not signed"),
        ):
            [one] = self.msmq(name, "send", TO_BETA, *common, *options, "--body", "forged")
            [dead_letter] = self.msmq(
                name, "receive", ".\\system$;deadxact", "--timeout", str(DEADLINE), "--peek"
            )
            self.assertEqual(
                (dead_letter["id"], dead_letter["class_name"]), (one["id"], "MQMSG_CLASS_NACK_BAD_SIGNATURE")
            )
            refused.append((one["id"], reason))
            [reported] = self.msmq(name, "explain", one["id"])
            self.assertIn("NACK_BAD_SIGNATURE", json.dumps(reported))
        for identifier, reason in refused:
            [reported] = self.msmq("BETA", "explain", identifier)
            self.assertIn(reason, json.dumps(reported))
        self.assertEqual(self.run_msmq("BETA", "receive", ORDERS, "--timeout", "0").returncode, 3)

    def test_certificates_of_others(self) -> None:
        """A PKCS#12 file is taken over with its password; what cannot be used is refused in a line."""
        openssl = shutil.which("openssl")
        if openssl is None:
            self.skipTest("openssl is not installed")
        self.start("ALPHA")
        certificate, key, pfx = (os.fspath(self.data / name) for name in ("c.pem", "k.pem", "c.pfx"))
        subject = ("-subj", "/CN=Bob", "-days", "30", "-nodes", "-keyout", key, "-out", certificate)
        subprocess.run(
            [openssl, "req", "-x509", "-newkey", "rsa:2048", *subject], check=True, capture_output=True
        )
        export = ("-in", certificate, "-inkey", key, "-out", pfx, "-passout", "pass:swordfish")
        subprocess.run([openssl, "pkcs12", "-export", *export], check=True, capture_output=True)
        password = self.data / "password"
        password.write_text("swordfish\n")
        without = self.run_msmq("ALPHA", "certificate", "import", pfx)
        self.assertEqual((without.returncode, without.stdout), (1, ""))
        self.assertIn("MQ_ERROR_INVALID_CERTIFICATE: the file needs a password", without.stderr)
        alone = self.run_msmq("ALPHA", "certificate", "import", certificate)
        self.assertIn("without its private key", alone.stderr)
        [made] = self.msmq(
            *("ALPHA", "certificate", "import", pfx, "--password-file", os.fspath(password), "--sid", MALLORY)
        )
        self.assertEqual((made["subject"], made["sid"], made["internal"]), ("CN=Bob", MALLORY, False))
        [listed] = self.msmq("ALPHA", "certificate", "list")
        self.assertEqual(listed, made)
        fingerprint = made["fingerprint"]
        self.assertEqual(self.msmq("ALPHA", "certificate", "show", fingerprint[:8]), [made])
        self.msmq("ALPHA", "queue", "create", ORDERS, "--authenticate")
        unsigned = self.run_msmq("ALPHA", "send", ORDERS, "--body", "x")
        self.assertIn("MQ_ERROR_CERTIFICATE_NOT_PROVIDED", unsigned.stderr)
        self.msmq("ALPHA", "send", ORDERS, "--body", "x", "--sign", "1.0", "--certificate", fingerprint[:16])
        [found] = self.msmq("ALPHA", "receive", ORDERS, "--timeout", str(DEADLINE))
        self.assertEqual((found["authenticated"], found["sender_id"]), (True, MALLORY))
        weak = ("--sign", "2.0", "--hash", "md5", "--certificate", fingerprint)
        refused = self.run_msmq("ALPHA", "send", ORDERS, "--body", "x", *weak)
        self.assertIn('[security] hashes would have to name "md5"', refused.stderr)
        published = self.run_msmq("ALPHA", "certificate", "publish", fingerprint)
        self.assertIn("MQ_ERROR_NO_DS", published.stderr)
        self.msmq("ALPHA", "certificate", "delete", fingerprint)
        self.assertEqual(self.msmq("ALPHA", "certificate", "list"), [])
        kept = self.data / "ALPHA" / "certificates"
        self.assertEqual((kept.stat().st_mode & 0o777, list(kept.iterdir())), (0o700, []))
        nowhere = self.run_msmq("ALPHA", "certificate", "import", os.fspath(self.data / "none"))
        self.assertEqual(nowhere.returncode, 2)
