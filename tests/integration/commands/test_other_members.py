"""Administration of another member by its name, C{msmq --on HQ queue list}. [MS-MQOD] 3.3 and 3.4."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from msmq.cli import main
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from tests.cli.support import Ended
from tests.patience import DEADLINE
from tests.servers.certificates import make_credentials

TOKEN = "0123456789abcdef0123456789abcdef"
ORDERS = ".\\private$\\orders"
ESTATE = """
[enterprise]
id = "00000000-0000-0000-0000-0000000000ee"
[[site]]
name = "Berlin"
id = "00000000-0000-0000-0000-0000000000b0"
[[queue_manager]]
name = "ALPHA"
id = "00000000-0000-0000-0000-0000000000a1"
sites = ["Berlin"]
[[queue_manager]]
name = "HQ"
dns_name = "hq.example.com"
id = "00000000-0000-0000-0000-0000000000a2"
sites = ["Berlin"]
control = '{control}'
[[queue_manager]]
name = "SILENT"
id = "00000000-0000-0000-0000-0000000000a3"
sites = ["Berlin"]
[[queue]]
path = 'HQ\\orders'
id = "00000000-0000-0000-0000-00000000000f"
"""
CLOSED = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'


class OtherMemberTests(TestCase):
    """ALPHA, whose socket the command finds, and HQ, which listens with TLS for callers with a token."""

    timeout = DEADLINE

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.start())

    async def start(self) -> None:
        """Have both servers, and the files of HQ."""
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        credentials = make_credentials()
        self.key = self.secret("server.pem", credentials.key + credentials.certificate)
        self.ca = self.secret("ca.pem", credentials.authority)
        self.token = self.secret("token", TOKEN.encode())
        self.estate = self.directory / "estate.toml"
        self.estate.write_text(ESTATE.format(control="ssl:127.0.0.1:1"), encoding="utf-8")
        listener = f"ssl:0:interface=127.0.0.1:privateKey={self.key}:certKey={self.key}"
        self.hq = await self.started("HQ", f"remote_control = '{listener}'\n")
        assert self.hq.remote_control is not None
        self.manager = self.hq.manager
        self.port = self.hq.remote_control[1]
        self.endpoint = f"ssl:127.0.0.1:{self.port}:caFile={self.ca}"
        self.estate.write_text(ESTATE.format(control=self.endpoint), encoding="utf-8")
        self.alpha = await self.started("ALPHA", "", DESK=self.endpoint, **self.wrong())

    def wrong(self) -> dict[str, str]:
        """Members whose endpoints lead nowhere, or to a server that is not trusted."""
        other_authority = self.secret("other.pem", make_credentials("Another authority").authority)
        return {
            "GONE": f"ssl:127.0.0.1:1:caFile={self.ca}",
            "IMPOSTOR": f"ssl:127.0.0.1:{self.port}:caFile={other_authority}",
            "PLAIN": f"tcp:127.0.0.1:{self.port}",
        }

    async def started(self, name: str, listen: str, **members: str) -> Server:
        entries = "".join(f"{name} = '{endpoint}'\n" for name, endpoint in members.items())
        path = self.directory / f"{name}.toml"
        path.write_text(
            f"{CLOSED}{listen}[security]\ncontrol_token_file = '{self.token}'\n"
            f"[directory]\nbackend = 'file:{self.estate}'\n[control_servers]\n{entries}",
            encoding="utf-8",
        )
        overrides = Overrides(name=name, data=str(self.directory / name), storage="memory")
        server = Server(load(path, overrides), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    def secret(self, name: str, content: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    async def msmq(self, *arguments: str, token: Path | None = None) -> Ended:
        """Run the command in a worker thread, as a user of ALPHA."""
        output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        errors = io.StringIO()
        self.patch(sys, "stdout", output)
        self.patch(sys, "stderr", errors)
        options = ["--json", "--data", str(self.directory / "ALPHA")]
        if token is not None:
            options += ["--token-file", str(token)]
        status = await deferToThread(main, [*options, *arguments])
        written = output.buffer
        assert isinstance(written, io.BytesIO)
        return Ended(status, written.getvalue().decode(), errors.getvalue())

    async def on(self, *arguments: str, name: str = "HQ") -> list[Any]:
        """The output of a verb for another member."""
        ended = await self.msmq("--on", name, *arguments, token=self.token)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        return ended.objects

    async def refused(self, status: int, *words: str, name: str, token: Path | None) -> None:
        """One line that names the member or its endpoint, what is wrong, and never the token."""
        ended = await self.msmq("--on", name, "status", token=token)
        self.assertEqual((ended.status, ended.output), (status, ""), ended.errors)
        self.assertEqual(ended.errors.count("\n"), 1, ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)
        self.assertNotIn(TOKEN, ended.errors)

    async def test_remote_private_queue(self) -> None:
        """[MS-MQOD] 3.4: a private queue is made on another member, and its messages are counted there."""
        [created] = await self.on("queue", "create", ORDERS, "--label", "of HQ")
        self.assertEqual((created["path"], created["messages"]), (ORDERS, 0))
        await self.on("send", ORDERS, "--body", "one", "--count", "3")
        [shown] = await self.on("queue", "show", ORDERS)
        self.assertEqual((shown["label"], shown["messages"]), ("of HQ", 3))
        self.assertEqual([queue["path"] for queue in await self.on("queue", "list")], [ORDERS])
        self.assertEqual((await self.msmq("queue", "list")).objects, [])
        self.assertEqual([status["name"] for status in await self.on("status")], ["HQ"])

    async def test_public_queue(self) -> None:
        """[MS-MQOD] 3.3: the public queue of another member is shown and changed, there and in its directory.

        After the verb the option means the same, and a qualified name, whatever its case, the same member.
        """
        await self.on("queue", "create", "HQ\\orders")
        [shown] = await self.on("queue", "show", "HQ\\orders", name="hq.EXAMPLE.com")
        self.assertEqual((shown["type"], shown["label"]), ("public", ""))
        ended = await self.msmq(
            *("queue", "set", "HQ\\orders", "--on", "hq", "--label", "Orders", "--quota", "1000"),
            token=self.token,
        )
        self.assertEqual((ended.objects[0]["label"], ended.objects[0]["quota"]), ("Orders", 1000))
        queue = self.manager.inspection.queue("HQ\\orders")
        self.assertEqual((queue.label, queue.quota), ("Orders", 1000))

    async def test_one_timeline(self) -> None:
        """A message is explained by several servers at once; one that does not answer is named."""
        await self.on("queue", "create", ORDERS)
        [sent] = await self.on("send", ORDERS, "--body", "one")
        await self.on("queue", "purge", ORDERS)
        ended = await self.msmq("explain", sent["id"], "--ask", "HQ", self.endpoint, token=self.token)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [known] = ended.objects
        self.assertTrue(known["known"])
        self.assertEqual(
            [(each["server"], each["known"]) for each in known["servers"]],
            [(".", False), ("HQ", True), (self.endpoint, True)],
        )
        self.assertEqual(
            [(each["server"], each["event"]) for each in known["events"]],
            [("HQ", "purged"), (self.endpoint, "purged")],
        )
        ended = await self.msmq("explain", sent["id"], "--ask", "GONE", "HQ", token=self.token)
        self.assertEqual(ended.status, 1)
        self.assertIn("GONE", ended.errors)
        self.assertEqual([each["event"] for each in ended.objects[0]["events"]], ["purged"])
        self.assertIn("refused", ended.objects[0]["servers"][1]["error"])
        ended = await self.msmq("explain", sent["id"], "HQ")
        self.assertEqual(ended.status, 2)
        self.assertIn("servers follow --ask", ended.errors)

    async def test_names(self) -> None:
        """The configuration names members that the directory does not; this server is one of them."""
        [status] = await self.on("status", name="desk")
        self.assertEqual(status["name"], "HQ")
        [status] = (await self.msmq("--on", "alpha", "status")).objects
        self.assertEqual(status["name"], "ALPHA")

    async def test_refusals(self) -> None:
        """An unknown name, a server that is away, another, or not TLS; a wrong token, and none."""
        for name in ("NOWHERE", "SILENT"):
            await self.refused(
                1,
                *(
                    "MQ_ERROR_MACHINE_NOT_FOUND",
                    name,
                    "[control_servers] of ALPHA",
                    "DESK, GONE, HQ, IMPOSTOR",
                ),
                name=name,
                token=self.token,
            )
        away = "MQ_ERROR_SERVICE_NOT_AVAILABLE"
        await self.refused(1, away, "127.0.0.1:1", "refused", name="GONE", token=self.token)
        await self.refused(1, away, "certificate is not trusted", name="IMPOSTOR", token=self.token)
        await self.refused(1, away, f"tcp:127.0.0.1:{self.port}", name="PLAIN", token=self.token)
        other = self.secret("other", b"f" * 32)
        await self.refused(1, "MQ_ERROR_ACCESS_DENIED", "token", name="HQ", token=other)
        await self.refused(2, "--on HQ", "requires a token", "--token-file", name="HQ", token=None)

    async def test_verbs_without_a_server(self) -> None:
        """Verbs that need no server cannot run on another member, with the option before or
        after the verb.
        """
        for arguments in (
            ("ping", "--on", "HQ", "127.0.0.1"),
            ("--on", "HQ", "decode", "-"),
            ("--on", "HQ", "discover"),
            ("config", "check", "--on", "HQ", "msmq.toml"),
            ("--on", "HQ", "route", "ALPHA", "HQ", "--enterprise", "estate.toml"),
        ):
            ended = await self.msmq(*arguments)
            self.assertEqual(ended.status, 2, ended.errors)
            self.assertIn("--on HQ: this command works without a server", ended.errors)
        ended = await self.msmq("--on", "HQ", "export", "events", "--output", "x")
        self.assertEqual(ended.status, 2)
