"""Two servers whose enterprise is in a real OpenLDAP server, which is stopped and started in between."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.manager.service import QueueManagerService
from msmq.net.clock import SystemClock
from msmq.queues.directory.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.queues.directory.selecting import equals
from msmq.queues.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError, Status
from tests.servers.slapd import SUFFIX, SlapdServer, free_port

CONFIGURATION = """
[queue_manager]
session_port = {port}
[listen]
session = "tcp:{port}:interface=127.0.0.1"
ping = "off"
discovery = "off"
[hosts]
{other} = "127.0.0.1:{other_port}"
"""


IDENTIFIERS = {"ALPHA": UUID(int=0xA1FA), "BETA": UUID(int=0xBE7A)}


class MembersTests(TestCase):
    """ALPHA sends to a public queue of BETA."""

    timeout = 60

    def setUp(self) -> None:
        self.slapd = SlapdServer(is_open=True)
        self.addCleanup(self.slapd.remove)
        self.place = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.place)

    async def member(self, name: str, port: int, other: str, other_port: int) -> QueueManagerService:
        file = self.place / f"{name}.toml"
        file.write_text(CONFIGURATION.format(port=port, other=other, other_port=other_port))
        directory = f"ldap://127.0.0.1:{self.slapd.port}/{SUFFIX}"
        data = os.fspath(self.place / name)
        overrides = Overrides(name=name, data=data, storage="memory", directory=directory)
        server = Server(load(file, overrides), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        assert server.parts is not None
        return server.parts.manager

    async def take(self, manager: QueueManagerService, queue: str) -> bytes:
        return bytes((await manager.receive(queue, timeout=20)).body)

    async def refused(self, asked: Any) -> Status:
        try:
            await asked
        except MQError as error:
            return error.status
        raise AssertionError("an MQError was expected")

    async def test_public_queue(self) -> None:
        """It is published, found and reached; what needs the directory is refused while that is away."""
        directory = LdapDirectory(LdapSettings("127.0.0.1", self.slapd.port, SUFFIX), SystemClock(), reactor)
        self.addCleanup(directory.close)
        london = (await directory.read(SiteObject, [equals("name", "london")]))["identifier"]
        for name, identifier in IDENTIFIERS.items():
            member = QueueManagerObject(
                identifier=identifier, computer_name=name, site_identifier_list=(london,)
            )
            await directory.create(member)
            (self.place / name).mkdir(mode=0o700)
            (self.place / name / "identity.json").write_text(json.dumps({"identifier": str(identifier)}))
        port, other_port = free_port(), free_port()
        alpha = await self.member("ALPHA", port, "BETA", other_port)
        beta = await self.member("BETA", other_port, "ALPHA", port)
        queue = await beta.create_queue("BETA\\orders", label="Bücher")
        held = await directory.read(QueueObject, [equals("pathname", "beta\\orders")])
        self.assertEqual(
            (queue["format_name"].lower(), held["label"]), (f"public={held['identifier']}", "Bücher")
        )
        own = await directory.read(QueueManagerObject, [equals("computer_name", "alpha")])
        self.assertEqual(own["identifier"], UUID(str(alpha.status()["identifier"])))
        await alpha.send("BETA\\orders", [Message(body=b"first")])
        self.assertEqual(await self.take(beta, "BETA\\orders"), b"first")
        self.slapd.stop()
        # What was found out holds; what would have to be is told at once.
        await alpha.send("BETA\\orders", [Message(body=b"second")])
        self.assertEqual(await self.take(beta, "BETA\\orders"), b"second")
        self.assertIs(await self.refused(alpha.send("BETA\\bills", [Message()])), Status.MQ_ERROR_NO_DS)
        self.assertIs(await self.refused(beta.create_queue("BETA\\bills")), Status.MQ_ERROR_NO_DS)
        self.slapd.start()
        await beta.create_queue("BETA\\bills")
        await beta.delete_queue("BETA\\orders")
        self.assertEqual((await directory.read(QueueObject))["pathname"], "beta\\bills")
