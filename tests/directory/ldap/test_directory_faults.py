"""Messages between two servers while their directory cannot be used, or cannot be written."""

from __future__ import annotations

from pathlib import Path

from msmq.control.server.alarms.manager_alarms import server_alarms
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces import DirectoryError
from msmq.manager.service import QueueManagerService
from msmq.membership.objects import QueueManagerObject, SiteObject
from msmq.membership.queries import equals
from msmq.queues.arriving.message import Message
from msmq.structures.status import Status
from msmq.web.readiness import Health, Readiness, readiness
from tests.directory.ldap.test_members import Members
from tests.manager.directory_status import directory_status
from tests.servers import slapd
from tests.servers.certificates import Credentials, make_credentials
from tests.servers.slapd import SlapdServer


def judge(manager: QueueManagerService) -> Readiness:
    """The readiness of a queue manager without routes and an archive."""
    inspection = manager.inspection
    return readiness(
        manager.state, inspection.measurements, lambda: server_alarms(inspection.status(), (), None, ())
    )


class DirectoryFaults(Members):
    """ALPHA and BETA, joined to an OpenLDAP server; ALPHA has found BETA\\orders, and not BETA\\later."""

    async def joined(self) -> tuple[QueueManagerService, QueueManagerService]:
        site = (await self.directory.read(SiteObject, [equals("name", "London")]))["identifier"]
        for name in ("ALPHA", "BETA"):
            await self.directory.create(QueueManagerObject(computer_name=name, site_identifier_list=(site,)))
        alpha = await self.member("ALPHA", "BETA")
        beta = await self.member("BETA", "ALPHA")
        await beta.create_queue("BETA\\orders")
        await beta.create_queue("BETA\\later")
        await alpha.send("BETA\\orders", [Message(body=b"before")])
        self.assertEqual(await self.take(beta, "BETA\\orders"), b"before")
        return alpha, beta


class ExpiredCertificateTests(DirectoryFaults):
    """The certificate of the directory server expires and is renewed."""

    def setUp(self) -> None:
        valid = make_credentials("Faults")
        server = SlapdServer(certificate=(valid.authority, valid.certificate, valid.key))
        self.addCleanup(server.remove)
        authority = server.directory / "trusted.pem"
        authority.write_bytes(valid.authority)
        settings = LdapSettings(
            server.tls_servers,
            slapd.SUFFIX,
            is_tls=True,
            ca_file=authority,
            bind_name=slapd.ADMINISTRATOR,
            password_file=Path(),
        )
        self.set_up(server, settings, slapd.PASSWORD)
        self.slapd = server

    def restart_with(self, credentials: Credentials) -> None:
        self.slapd.stop()
        self.slapd.certify(credentials.authority, credentials.certificate, credentials.key)
        self.slapd.start()

    async def test_messages(self) -> None:
        """Messages to queues that are known arrive; others are refused, and arrive after the renewal."""
        alpha, beta = await self.joined()
        self.restart_with(make_credentials("Faults", is_expired=True))
        for number in range(20):
            await alpha.send("BETA\\orders", [Message(body=str(number).encode())])
        found = [await self.take(beta, "BETA\\orders") for _ in range(20)]
        self.assertEqual(found, [str(number).encode() for number in range(20)])
        # Nothing is accepted that could not be sent.
        self.assertIs(await self.refused(alpha.send("BETA\\later", [Message()])), Status.MQ_ERROR_NO_DS)
        self.assertIs(await self.refused(beta.create_queue("BETA\\bills")), Status.MQ_ERROR_NO_DS)
        for manager in (alpha, beta):
            reported = directory_status(manager)
            self.assertFalse(reported.reached)
            self.assertIn("the certificate of 127.0.0.1 expired on 2020-12-31", reported.problem)
            judged = judge(manager)
            self.assertIs(judged.health, Health.DEGRADED)
            self.assertIn("the directory is not reached since", judged.reasons[0])
        self.restart_with(make_credentials("Faults"))
        await alpha.send("BETA\\later", [Message(body=b"after")])
        self.assertEqual(await self.take(beta, "BETA\\later"), b"after")
        await beta.create_queue("BETA\\bills")
        await alpha.send("BETA\\bills", [Message(body=b"new")])
        self.assertEqual(await self.take(beta, "BETA\\bills"), b"new")
        self.assertTrue(directory_status(alpha).reached)
        self.assertIs(judge(alpha).health, Health.READY)


class FullDiskTests(DirectoryFaults):
    """The disk of the directory server is full, and gets more space."""

    def setUp(self) -> None:
        server = SlapdServer()
        self.addCleanup(server.remove)
        settings = LdapSettings(
            server.servers, slapd.SUFFIX, bind_name=slapd.ADMINISTRATOR, password_file=Path()
        )
        self.set_up(server, settings, slapd.PASSWORD)
        self.slapd = server

    async def fill(self) -> None:
        """Add entries until the server has no space for the smallest."""
        from twisted.internet import reactor

        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        operations = Operations(connection)
        number, size = 0, 200_000
        while size:
            number += 1
            name = child(f"filler {number}", f"cn=Users,{slapd.SUFFIX}")
            try:
                await operations.add(name, "container", {"description": [b"x" * size]})
            except DirectoryError as error:
                self.assertIn("LDAP result 80", error.detail)
                size //= 4

    async def test_messages(self) -> None:
        """Messages arrive, also at queues that are looked up now; only writes are refused."""
        alpha, beta = await self.joined()
        self.slapd.stop()
        self.slapd.limit(4 * 1024 * 1024)
        self.slapd.start()
        await self.fill()
        for queue in ("BETA\\orders", "BETA\\later"):
            await alpha.send(queue, [Message(body=queue.encode())])
            self.assertEqual(await self.take(beta, queue), queue.encode())
        self.assertIs(await self.refused(beta.create_queue("BETA\\bills")), Status.MQ_ERROR_DS_ERROR)
        self.assertEqual(directory_status(beta).reached, True)
        self.slapd.stop()
        self.slapd.limit(1024 * 1024 * 1024)
        self.slapd.start()
        await beta.create_queue("BETA\\bills")
        await alpha.send("BETA\\bills", [Message(body=b"new")])
        self.assertEqual(await self.take(beta, "BETA\\bills"), b"new")
