"""Tests of starting and stopping a server, on real sockets of loopback."""

from __future__ import annotations

import grp
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq.control.server.alarms.manager_alarms import server_alarms
from msmq.errors import LocalProtocolError, MsmqError
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.control_socket import ControlSocketError
from msmq.service.data_directory.data_lock import DataDirectoryInUse
from msmq.service.data_directory.identity import IdentityError, load_identity
from msmq.service.replacements import ServerPingProtocol
from msmq.service.server import Server
from msmq.service.server_ports import StartError
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid
from tests.control.support import ORDERS, Disk
from tests.manager.test_route_table import TOPOLOGY, ScriptedRouter

CLOSED = """
[listen]
session = "tcp:0:interface=127.0.0.1"
ping = "udp:0:interface=127.0.0.1"
"""


class ServerTests(TestCase):
    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        self.lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def server(self, text: str = CLOSED, data: Path | None = None) -> Server:
        path = Path(str(self.mktemp()))
        path.write_text(text)
        overrides = Overrides(name="ALPHA", data=os.fspath(data or self.data), storage="memory")
        configuration = load(path, overrides)
        return Server(configuration, IReactorTime(reactor))

    async def test_failed_commits_without_a_web_endpoint(self) -> None:
        """A server without C{[listen] web} measures its commits, and has an alarm after one that failed."""
        path = Path(str(self.mktemp()))
        path.write_text(CLOSED)
        disk = Disk()
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), storage="memory")
        server = Server(load(path, overrides), IReactorTime(reactor), store=disk)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        manager = server.manager
        await manager.create_queue(ORDERS)
        times = manager.inspection.status().store.commit_times
        assert times is not None
        self.assertGreater(times.commits, 0)
        self.assertEqual(server_alarms(manager.inspection.status(), (), None, ()), [])
        disk.is_broken = True
        with self.assertRaises(MsmqError):
            await manager.create_queue(f"{ORDERS}2")
        [alarm] = server_alarms(manager.inspection.status(), (), None, ())
        self.assertEqual(alarm.kind, "store_failed")
        disk.is_broken = False
        await manager.create_queue(f"{ORDERS}3")
        self.assertEqual(server_alarms(manager.inspection.status(), (), None, ()), [])

    async def test_router_and_pings_of_an_application(self) -> None:
        """A server takes a router and a ping protocol as it takes a session protocol."""

        class Closed(ServerPingProtocol):
            def would_refuse(self, address: tuple[str, int]) -> bool:
                return True

        path = Path(str(self.mktemp()))
        path.write_text(CLOSED)
        overrides = Overrides(name="ALPHA", data=os.fspath(self.data), storage="memory")
        server = Server(
            load(path, overrides),
            IReactorTime(reactor),
            ping_protocol=Closed,
            router=ScriptedRouter(),
        )
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        assert server._parts is not None
        self.assertIsInstance(server._parts.pings, Closed)
        self.assertIs(await server.manager.inspection.topology(), TOPOLOGY)

    async def test_manager_while_ready(self) -> None:
        """The queue manager and the sessions exist while the server is ready; otherwise the error says so."""
        server = self.server()
        for start in (1, 2):
            with self.subTest(start=start):
                error = self.assertRaises(LocalProtocolError, lambda: server.manager)
                self.assertIn("Server.manager: the server is not ready", str(error))
                self.assertRaises(LocalProtocolError, lambda: server.sessions)
                self.assertFalse(server.is_ready)
                server.startService()
                self.addCleanup(server.stopService)
                await server.started
                self.assertTrue(server.is_ready)
                self.assertEqual(server.manager.inspection.status().name, "ALPHA")
                self.assertIs(server.sessions.is_offline, False)
                await server.stopService()
        self.assertRaises(LocalProtocolError, lambda: server.manager)

    async def test_former_name_of_the_objects(self) -> None:
        """C{parts}, where the queue manager was found, works with a warning that names the successor."""
        server = await self.started()
        parts = server.parts
        assert parts is not None
        self.assertIs(parts.manager, server.manager)
        [warning] = self.flushWarnings([self.test_former_name_of_the_objects])
        self.assertIs(warning["category"], DeprecationWarning)
        self.assertIn("Server.manager", warning["message"])

    async def test_pings_of_other_addresses(self) -> None:
        """A ping gets the answer that a session would be refused, where its connection would be closed."""
        for allowed, refuses in (('"127.0.0.2"', True), ('"127.0.0.0/8"', False), ("", False)):
            server = await self.started(CLOSED + f"[security]\nsessions_from = [{allowed}]\n")
            assert server._parts is not None
            self.assertIs(server._parts.pings.would_refuse(("127.0.0.1", 4000)), refuses)
            server.sessions.take_offline()
            self.assertTrue(server._parts.pings.would_refuse(("127.0.0.1", 4000)))
            await server.stopService()

    async def started(self, text: str = CLOSED) -> Server:
        server = self.server(text)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    async def refused(self, server: Server, error: type[MsmqError]) -> str:
        """Why a server does not start."""
        server.startService()
        try:
            await server.started
        except error as refusal:
            return str(refusal)
        finally:
            await server.stopService()
        raise self.failureException("it started")

    def connect(self, address: str) -> None:
        host, _, port = address.partition(" ")[2].rpartition(":")
        socket.create_connection((host, int(port))).close()

    async def test_listens_when_it_has_started(self) -> None:
        """Sessions, pings and the control API are there once C{started} has fired."""
        server = await self.started()
        session, ping = server.addresses
        self.assertTrue(session.startswith("TCP 127.0.0.1:"), session)
        self.assertTrue(ping.startswith("UDP 127.0.0.1:"), ping)
        self.connect(session)
        mode = (self.data / "control.sock").stat().st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)

    async def test_gives_the_control_socket_to_a_group(self) -> None:
        """The named group may use it, and no other; one that does not exist is named in the error."""
        group = grp.getgrgid(os.getegid()).gr_name
        mask = os.umask(0)
        self.addCleanup(os.umask, mask)
        server = await self.started(CLOSED + f'[security]\ncontrol_group = "{group}"\n')
        status = (self.data / "control.sock").stat()
        self.assertEqual((stat.S_IMODE(status.st_mode), status.st_gid), (0o660, os.getegid()))
        self.assertEqual(os.umask(0), 0)
        await server.stopService()
        refusal = await self.refused(
            self.server(CLOSED + '[security]\ncontrol_group = "no such group"\n'), ControlSocketError
        )
        self.assertIn("the group no such group does not exist", refusal)

    async def test_start_up_log(self) -> None:
        """The log has name, identifier, addresses, directory, and that the store is not durable."""
        server = await self.started()
        reported = "\n".join(self.lines)
        identifier = f"{{{format_guid(server.manager.inspection.status().identifier)}}}"
        for what in ("queue manager ALPHA", identifier, *server.addresses, str(self.data), "store memory"):
            self.assertIn(what, reported)
        self.assertIn("recoverable and transactional sends are refused", reported)

    async def test_its_status_says_where_it_listens(self) -> None:
        """C{msmq status} shows the addresses that are really bound."""
        server = await self.started()
        status = server.manager.inspection.status()
        self.assertEqual(status.addresses, list(server.addresses))
        self.assertEqual((status.name, status.dns_name), ("ALPHA", "ALPHA"))

    async def test_leaves_nothing_when_it_has_stopped(self) -> None:
        """After a stop the ports are free, the socket is gone, and it can be started again."""
        server = await self.started()
        session = server.addresses[0]
        await server.stopService()
        self.assertRaises(ConnectionRefusedError, self.connect, session)
        self.assertEqual(
            sorted(path.name for path in self.data.iterdir()), ["host.json", "identity.json", "lock"]
        )
        self.assertEqual(server.addresses, ())
        server.startService()
        await server.started
        self.connect(server.addresses[0])

    async def test_its_own_names_need_no_network(self) -> None:
        """A message to a name or an address of its own is in its queue at once."""
        for interface in ("127.0.0.1", "0.0.0.0"):
            session = f"tcp:0:interface={interface}"
            server = await self.started(CLOSED.replace("tcp:0:interface=127.0.0.1", session))
            manager = server.manager
            await manager.create_queue(".\\private$\\orders")
            for address in ("TCP:127.0.0.1", "OS:alpha", "OS:localhost"):
                await manager.send(f"DIRECT={address}\\private$\\orders", [Message(body=b"1")])
            self.assertEqual(manager.inspection.queue(".\\private$\\orders").messages, 3)
            self.assertEqual(manager.inspection.outgoing(), [])
            await server.stopService()

    async def test_another_loopback_address_is_another_queue_manager(self) -> None:
        """With an endpoint on one address, what goes to any other leaves."""
        server = await self.started()
        manager = server.manager
        await manager.send("DIRECT=TCP:127.0.0.200\\private$\\orders", [Message(body=b"1")])
        self.assertEqual(len(manager.inspection.outgoing()), 1)

    async def test_holds_no_more_in_memory_than_it_may(self) -> None:
        """C{express_memory} and C{quota} both bound what a store that keeps nothing takes."""
        for limit in ("quota = 4096", "express_memory = 4_194_304"):
            server = await self.started(CLOSED + f"[limits]\n{limit}\n")
            manager = server.manager
            await manager.create_queue(".\\private$\\orders")
            await manager.send(".\\private$\\orders", [Message(body=bytes(3_000_000))])
            try:
                await manager.send(".\\private$\\orders", [Message(body=bytes(3_000_000))])
            except MQError as refusal:
                self.assertIs(refusal.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
            else:
                self.fail("it was taken")
            await server.stopService()

    async def test_security_settings_apply(self) -> None:
        """The settings of C{[security]} for trusted peers, owners, new queues and rules apply."""
        rules = self.data.parent / f"{self.data.name}.rules"
        rules.write_text("[names]\nclerks = 'S-1-5-21-1-2-3-2001'\n[[queue]]\npath = '*ruled'\n")
        server = await self.started(
            CLOSED
            + f"[security]\nunauthenticated = 'deny'\nowner = 'clerks'\ndefault_descriptor = 'strict'\n"
            f"rules = '{rules}'\n"
        )
        manager = server.manager
        for name in ("own", "ruled"):
            await manager.create_queue(f".\\private$\\{name}")
        clerks = "S-1-5-21-1-2-3-2001"
        own = await manager.access.acl(".\\private$\\own")
        self.assertEqual(own.sddl, f"O:{clerks}G:{clerks}D:(A;;0xf003f;;;{clerks})")
        self.assertEqual(own.owner, f"clerks ({clerks})")
        self.assertEqual((await manager.access.acl(".\\private$\\ruled")).source, f"{rules}:3")
        why = await manager.access.why(".\\private$\\own", "anonymous", "send")
        self.assertEqual((why.granted, why.unauthenticated), (False, "deny"))

    async def test_keeps_its_identity(self) -> None:
        """The identifier is the same after a restart."""
        server = await self.started()
        first = server.manager.inspection.status().identifier
        await server.stopService()
        server.startService()
        await server.started
        self.assertEqual(server.manager.inspection.status().identifier, first)

    async def test_refuses_to_replace_a_renewed_queue_manager(self) -> None:
        """No new queue manager starts under the name of one whose new identifier was interrupted."""
        for name in (f"{self.data.name}.0123abcd", f".{self.data.name}.new-killed"):
            other = self.data.with_name(name)
            other.mkdir(parents=True)
            self.addCleanup(shutil.rmtree, other)
            load_identity(other)
        refusal = await self.refused(self.server(), IdentityError)
        self.assertIn(f"{self.data.name}.0123abcd; rename it back", refusal)
        self.assertEqual([path.name for path in self.data.glob("*")], [])

    async def test_what_is_off_is_not_there(self) -> None:
        """A server may have no port and no socket at all."""
        server = await self.started('[listen]\nsession = "off"\nping = "off"\ncontrol = "off"\n')
        self.assertEqual(server.addresses, ())
        self.assertFalse((self.data / "control.sock").exists())

    async def test_refuses_a_second_server_on_its_data(self) -> None:
        """Two servers never share a data directory, and the first does not notice the attempt."""
        server = await self.started()
        refusal = await self.refused(self.server(), DataDirectoryInUse)
        self.assertIn(str(self.data), refusal)
        self.assertIn(f"process {os.getpid()}", refusal)
        self.connect(server.addresses[0])
        self.assertTrue((self.data / "control.sock").exists())

    async def test_names_a_port_that_is_taken(self) -> None:
        """A session or ping port in use is named, and everything that was begun is undone."""
        with socket.socket() as stream, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            stream.bind(("127.0.0.1", 0))
            stream.listen()
            datagrams.bind(("127.0.0.1", 0))
            tcp = stream.getsockname()[1]
            udp = datagrams.getsockname()[1]
            self.assertEqual(
                await self.refused(
                    self.server(f'[listen]\nsession = "tcp:{tcp}:interface=127.0.0.1"\n'), StartError
                ),
                f"cannot listen on TCP 127.0.0.1:{tcp}: Address already in use",
            )
            self.assertEqual(
                await self.refused(
                    self.server(f'[listen]\nsession = "off"\nping = "udp:{udp}:interface=127.0.0.1"\n'),
                    StartError,
                ),
                f"cannot listen on UDP 127.0.0.1:{udp}: Address already in use",
            )
        self.assertFalse((self.data / "control.sock").exists())
        await self.started()

    async def test_names_an_address_that_is_not_this_machines(self) -> None:
        """An address of another machine is named."""
        refusal = await self.refused(
            self.server('[listen]\nsession = "tcp:0:interface=192.0.2.1"\n'), StartError
        )
        self.assertEqual(refusal, "cannot listen on TCP 192.0.2.1:0: Cannot assign requested address")
        [warning] = [line for line in self.lines if "listen.session" in line]
        self.assertIn("messages of unverified senders are refused", warning)

    async def test_names_a_certificate_that_is_missing(self) -> None:
        """A TLS endpoint without its files is refused by its description."""
        refusal = await self.refused(
            self.server('[listen]\nsession = "ssl:0:privateKey=/nonexistent.pem"\n'), StartError
        )
        self.assertIn("ssl:0:privateKey=/nonexistent.pem", refusal)
        self.assertIn("No such file", refusal)

    async def test_replaces_the_socket_of_a_killed_server(self) -> None:
        """A socket without a listener does not keep it from starting."""
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(os.fspath(self.data / "control.sock"))
        await self.started()

    async def test_leaves_the_socket_of_another_server(self) -> None:
        """A socket with a listener is left alone."""
        path = self.data / "control.sock"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(os.fspath(path))
            other.listen()
            refusal = await self.refused(self.server(), ControlSocketError)
            self.assertEqual(refusal, f"control socket {path} is in use by another server")
            self.assertTrue(path.exists())

    async def test_leaves_what_is_no_socket(self) -> None:
        """A file of the socket's name is never removed."""
        path = self.data / "control.sock"
        path.write_text("precious")
        refusal = await self.refused(self.server(), ControlSocketError)
        self.assertEqual(refusal, f"control socket {path}: a file of that name exists and is not a socket")
        self.assertEqual(path.read_text(), "precious")

    async def test_names_a_control_directory_that_is_missing(self) -> None:
        """A socket in a directory that does not exist is refused by its path."""
        refusal = await self.refused(
            self.server(CLOSED + 'control = "unix:/nonexistent/control.sock"\n'), ControlSocketError
        )
        self.assertIn("/nonexistent/control.sock", refusal)

    async def test_refuses_a_damaged_identity(self) -> None:
        """It never goes on under a new identity, and gives the directory free."""
        (self.data / "identity.json").write_text("{}")
        refusal = await self.refused(self.server(), IdentityError)
        self.assertIn(str(self.data / "identity.json"), refusal)
        (self.data / "identity.json").unlink()
        await self.started()

    async def test_can_be_stopped_before_it_was_started(self) -> None:
        """Stopping what never ran does nothing."""
        await self.server().stopService()
