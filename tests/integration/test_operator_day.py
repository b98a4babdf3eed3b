"""A day of an operator: three real servers, and nothing but the command.

C{make operator-day} runs it with 100,000 messages (C{MSMQ_OPERATOR_DAY}); the suite has fewer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers.certificates import make_credentials
from tests.servers.own_address import own_address
from tests.servers.prepared import PROGRAMS, PreparedProcess, run

MESSAGES: Final = int(os.environ.get("MSMQ_OPERATOR_DAY", "2000"))
PATIENCE: Final = DEADLINE + MESSAGES / 100
LOST: Final = 20
"""Transactional messages to a queue that does not exist."""

ORDERS: Final = ".\\private$\\orders"

QUEUES: Final = """
[[queue]]
path = '.\\private$\\orders'
label = "Orders"
quota = 1048576

[[queue]]
path = '.\\private$\\ledger'
transactional = true
journal = true
"""


@attrs.define
class _Site:
    """A server, its directory and its configuration."""

    name: str
    address: str
    directory: Path
    process: PreparedProcess | None = None

    @property
    def data(self) -> Path:
        return self.directory / self.name.lower()

    @property
    def file(self) -> Path:
        return self.directory / f"{self.name.lower()}.toml"

    @property
    def client(self) -> ControlClient:
        return ControlClient(self.data / "control.sock")


class OperatorDayTests(SynchronousTestCase):
    """C{ALPHA} sends, C{BETA} receives, C{GAMMA} has clients on other computers."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-day-"))
        self.addCleanup(shutil.rmtree, self.directory)
        names = ("ALPHA", "BETA", "GAMMA")
        self.alpha, self.beta, self.gamma = (
            _Site(name, own_address(number), self.directory) for number, name in enumerate(names, 91)
        )
        hosts = "".join(f'{site.name} = "{site.address}"\n' for site in (self.alpha, self.beta, self.gamma))
        for site in (self.alpha, self.beta, self.gamma):
            site.file.write_text(f"[hosts]\n{hosts}")

    def start(self, site: _Site) -> None:
        """Start a server, and wait until it answers."""
        options = ("--config", site.file, "--name", site.name, "--address", site.address, "--data", site.data)
        with (self.directory / f"{site.name}.log").open("ab") as log:
            site.process = PreparedProcess(
                [PROGRAMS / "twistd", "-n", "--pidfile=", "msmq", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        self.addCleanup(self.end, site.process)
        self.until(lambda: site.client.status()["state"] == "running")

    def end(self, process: PreparedProcess, *, kill: bool = False) -> None:
        """End a server, if it runs."""
        if process.poll() is None:
            process.kill() if kill else process.terminate()
            process.wait(DEADLINE)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what other processes do."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if is_so():
                    return
            except MQError:
                pass
            time.sleep(0.05)
        logs = {log.name: log.read_text()[-2000:] for log in self.directory.glob("*.log")}
        self.fail(f"it did not happen: {logs}")

    def msmq(self, site: _Site, *arguments: str | Path, status: int = 0) -> list[dict[str, Any]]:
        """Run the command on a server, and read the objects that it prints."""
        options = ("--data", site.data, "--json")
        done = run([PROGRAMS / "msmq", *arguments, *options], timeout=PATIENCE, cwd=self.directory)
        self.assertEqual(done.returncode, status, (arguments, done.stdout[-1000:], done.stderr))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def count(self, site: _Site, path: str = ORDERS) -> int:
        """The messages in a queue."""
        return int(site.client.queue(path)["messages"])

    def orders(self, name: str, first: int, count: int) -> Path:
        """A file with an order a line."""
        file = self.directory / name
        with file.open("w") as lines:
            for number in range(first, first + count):
                order = {"label": f"order {number}", "body": f"order {number} of customer {number % 97}."}
                lines.write(json.dumps({**order, "delivery": "recoverable"}) + "\n")
        return file

    def test_day(self) -> None:
        """From creating queues to a restore elsewhere, no message is lost, doubled or refused."""
        for site in (self.alpha, self.beta):
            self.start(site)
        self.create_queues()
        self.send_while_a_peer_is_down()
        self.requeue_dead_letters()
        self.search()
        self.reload_under_load()
        self.kill_while_messages_come()
        self.restore_elsewhere()

    def create_queues(self) -> None:
        """The queues of a file are created once."""
        file = self.directory / "queues.toml"
        file.write_text(QUEUES)
        done = self.msmq(self.beta, "apply", file)
        self.assertEqual({each["queue"] for each in done}, {ORDERS, ".\\private$\\ledger"})
        self.assertEqual(self.msmq(self.beta, "apply", file), [])
        self.assertEqual(self.msmq(self.beta, "queue", "list", "led*")[0]["transactional"], True)

    def send_while_a_peer_is_down(self) -> None:
        """Messages wait for a peer that is down, the check says so, and they arrive when it is back."""
        assert self.beta.process is not None
        self.end(self.beta.process)
        destination = "DIRECT=OS:BETA\\private$\\orders"
        lines = self.orders("morning.jsonl", 0, MESSAGES)
        self.assertEqual(len(self.msmq(self.alpha, "send", destination, "--json-lines", lines)), MESSAGES)
        [waiting] = self.msmq(self.alpha, "outgoing", "list", "DIRECT=OS:BETA*")
        self.assertEqual(waiting["messages"], MESSAGES)
        [check] = self.msmq(self.alpha, "check", "--outgoing", "1", status=1)
        self.assertIn(f"{MESSAGES} messages are pending for {destination}", check["problems"][0])
        self.start(self.beta)
        self.msmq(self.alpha, "outgoing", "retry-now", "--all")
        self.until(lambda: self.count(self.beta) == MESSAGES)

    def requeue_dead_letters(self) -> None:
        """Messages to a misspelt queue are dead letters of one group, and are sent to the right one."""
        wrong, right = "DIRECT=OS:BETA\\private$\\leger", "DIRECT=OS:BETA\\private$\\ledger"
        options = ("--transactional", "--dead-letter", "--body", "an entry", "--count", str(LOST))
        self.msmq(self.alpha, "send", wrong, *options)
        self.until(lambda: self.alpha.client.status()["dead_letters"] == LOST)
        [group] = self.msmq(self.alpha, "deadletter", "list", "--group-by", "class,queue")
        self.assertEqual(
            (group["class_name"], group["destination_queue"], group["messages"]),
            ("MQMSG_CLASS_NACK_BAD_DST_Q", wrong, LOST),
        )
        requeued = self.msmq(self.alpha, "deadletter", "requeue", "--class", "NACK_BAD_DST_Q", "--to", right)
        self.assertEqual(len(requeued), LOST)
        self.until(lambda: self.count(self.beta, ".\\private$\\ledger") == LOST)
        self.assertEqual(self.msmq(self.alpha, "deadletter", "list"), [])

    def search(self) -> None:
        """One order is found by its body among all."""
        wanted = MESSAGES - 3
        found = self.msmq(
            self.beta, "queue", "browse", ORDERS, "--body", f"order {wanted} of", "--limit", "10"
        )
        self.assertEqual([message["label"] for message in found], [f"order {wanted}"])
        again = self.msmq(self.beta, "queue", "browse", ORDERS, "--where", f"label == 'order {wanted}'")
        self.assertEqual([message["id"] for message in again], [found[0]["id"]])

    def reload_under_load(self) -> None:
        """A certificate and a quota are replaced while a client sends; the client notices nothing."""
        port = 1843
        old, new = (make_credentials(name, self.gamma.address) for name in ("An authority", "The next one"))

        def install(credentials: Any) -> None:
            (self.directory / "gamma.crt").write_bytes(credentials.certificate)
            (self.directory / "gamma.key").write_bytes(credentials.key)

        install(old)
        for name, credentials in (("old.pem", old), ("new.pem", new)):
            (self.directory / name).write_bytes(credentials.authority)
        token = self.directory / "token"
        token.touch(0o600)
        token.write_text("0123456789abcdef0123456789abcdef\n")
        certificate = "privateKey=gamma.key:certKey=gamma.crt"
        self.gamma.file.write_text(
            f'[listen]\nremote_control = "ssl:{port}:interface={self.gamma.address}:{certificate}"\n'
            '[security]\ncontrol_token_file = "token"\n[limits]\nquota = 1000000\n'
        )
        self.start(self.gamma)
        self.msmq(self.gamma, "apply", self.directory / "queues.toml")
        place = f"ssl:{self.gamma.address}:{port}:tokenFile={token}:caFile="
        lines = self.orders("noon.jsonl", 0, MESSAGES).read_bytes().splitlines(keepends=True)
        options = ("--control", f"{place}{self.directory}/old.pem")
        sent = self.directory / "sent"
        with sent.open("wb") as output:
            sending = PreparedProcess(
                [PROGRAMS / "msmq", "send", ORDERS, "--json-lines", "-", *options],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.PIPE,
            )
        self.addCleanup(self.end, sending, kill=True)
        assert sending.stdin is not None
        sending.stdin.write(b"".join(lines[: MESSAGES // 2]))
        sending.stdin.flush()
        self.until(lambda: self.count(self.gamma) > 0)
        install(new)
        self.gamma.file.write_text(self.gamma.file.read_text().replace("1000000", "2000000"))
        [reloaded] = self.msmq(self.gamma, "config", "reload")
        self.assertEqual((reloaded["changed"], reloaded["restart"]), (["limits.quota"], []))
        _, errors = sending.communicate(b"".join(lines[MESSAGES // 2 :]), PATIENCE)
        self.assertEqual((sending.returncode, errors), (0, b""))
        self.assertEqual(len(sent.read_bytes().splitlines()), MESSAGES)
        self.assertEqual(self.count(self.gamma), MESSAGES)
        for authority, status in (("new.pem", 0), ("old.pem", 1)):
            options = ("--control", f"{place}{self.directory}/{authority}")
            asked = run([PROGRAMS / "msmq", "status", *options], timeout=PATIENCE, cwd=self.directory)
            self.assertEqual(asked.returncode, status, asked.stderr)

    def kill_while_messages_come(self) -> None:
        """A server that is killed while messages come in has each of them once when it is back."""
        destination = "DIRECT=OS:BETA\\private$\\orders"
        lines = self.orders("evening.jsonl", MESSAGES, MESSAGES)
        self.msmq(self.alpha, "send", destination, "--json-lines", lines)
        self.until(lambda: self.count(self.beta) > MESSAGES)
        self.msmq(self.beta, "backup", self.directory / "backup")
        assert self.beta.process is not None
        self.end(self.beta.process, kill=True)
        self.start(self.beta)
        self.msmq(self.alpha, "outgoing", "retry-now", "--all")
        self.until(lambda: self.count(self.beta) >= 2 * MESSAGES)

    def restore_elsewhere(self) -> None:
        """A backup that was repeated before the server died restores all its messages elsewhere."""
        self.msmq(self.beta, "backup", self.directory / "backup")
        assert self.beta.process is not None
        self.end(self.beta.process, kill=True)
        shutil.rmtree(self.beta.data)
        other = _Site("BETA", self.beta.address, self.directory / "elsewhere")
        other.directory.mkdir()
        shutil.copy(self.beta.file, other.file)
        self.msmq(other, "restore", self.directory / "backup")
        self.start(other)
        self.assertEqual(self.count(other, ".\\private$\\ledger"), LOST)
        found = self.msmq(other, "receive", ORDERS, "--count", str(3 * MESSAGES), "--timeout", "0")
        labels = [message["label"] for message in found]
        self.assertEqual(sorted(labels), sorted(f"order {number}" for number in range(2 * MESSAGES)))
