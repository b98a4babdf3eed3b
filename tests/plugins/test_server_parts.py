"""Parts of a server that an application passes, or a plugin that the configuration names provides."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.test.proto_helpers import FakeDatagramTransport
from twisted.trial.unittest import TestCase
from zope.interface import implementer

from msmq.directory.memory import MemoryDirectory
from msmq.discovery.packets import TopologyClientRequest
from msmq.errors import LocalProtocolError
from msmq.interfaces import (
    IAccessControlFactory,
    IRouterFactory,
    ISessionPolicyFactory,
    ServerContext,
)
from msmq.membership.objects import EnterpriseObject
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.plugins import PluginError
from msmq.security.access.guarded_access_control import GuardedAccessControl
from msmq.service.configuration import ConfigurationError, Overrides, load
from msmq.service.directory_servers import DirectoryServerProtocol
from msmq.service.policy_plugins import make_router, make_session_policy
from msmq.service.server import Server
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.clock import ManualClock
from tests.manager.securing.test_gated_peers import OneAddress
from tests.manager.test_route_table import ScriptedRouter
from tests.net.test_discovery import ENTERPRISE
from tests.net.test_session_policy import LabelPolicy
from tests.plugins.plugin_files import PluginTestCase

CLOSED = """
[listen]
session = "tcp:0:interface=127.0.0.1"
ping = "off"
discovery = "off"
"""

NAMED = """
[routing]
backend = "scripted:here"

[security]
access = "memory"
session_policy = "labels:drop"
"""


@implementer(IRouterFactory, IAccessControlFactory, ISessionPolicyFactory)
class Recorded:
    """A factory of a test, of every kind.

    @ivar made: the arguments and what was created for them.
    """

    description = "of a test"

    def __init__(self, name: str, product: Any) -> None:
        self.name = name
        self.product = product
        self.made: list[tuple[str, ServerContext]] = []

    def make_router(self, argument: str, context: ServerContext) -> Any:
        return self.make(argument, context)

    def make_access_control(self, argument: str, context: ServerContext, documented: Any) -> Any:
        return self.make(argument, context)

    def make_session_policy(self, argument: str, context: ServerContext) -> Any:
        return self.make(argument, context)

    def make(self, argument: str, context: ServerContext) -> Any:
        self.made.append((argument, context))
        if argument == "nowhere":
            raise ValueError("has no such file")
        return self.product


class ServerPartsTests(TestCase, PluginTestCase):
    """L{Server} with each of its parts replaced."""

    def setUp(self) -> None:
        PluginTestCase.setUp(self)
        # A path of trial's own may be longer than a unix socket's may be.
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)

    def configuration(self, text: str = "") -> Any:
        path = self.data / "msmq.toml"
        path.write_text(CLOSED + text)
        return load(path, Overrides(name="ALPHA", data=os.fspath(self.data), storage="memory"), {})

    async def parts_of(self, server: Server) -> Any:
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server._parts

    async def test_parts_of_an_application(self) -> None:
        """Each keyword argument replaces what the configuration names; reactor and clock have defaults."""

        class Factory(DiallingSessionFactory):
            pass

        clock = ManualClock()
        store, router, policy = MemoryMessageStore(durable=True), ScriptedRouter(), LabelPolicy()
        directory, access = MemoryDirectory(clock), MemoryAccessControl()
        self.successResultOf(directory.create(EnterpriseObject(name="estate")))
        server = Server(
            self.configuration(),
            store=store,
            router=router,
            directory=directory,
            access=access,
            session_policy=policy,
            session_factory=Factory,
        )
        parts = await self.parts_of(server)
        self.assertIsInstance(parts.sessions, Factory)
        await parts.manager.create_queue(".\\private$\\orders")
        status = parts.manager.inspection.status().directory
        self.assertEqual(status.kind, "memory")
        self.assertIsInstance(parts.manager._parts.security.descriptors.access, GuardedAccessControl)
        await server.stopService()
        stored = [queue.path for queue in (await store.open()).queues]
        self.assertIn("private$\\orders", stored)

    async def test_gate_and_discovery_of_an_application(self) -> None:
        """A gate decides on addresses; a subclass of the responder observes discovery requests."""
        answered: list[tuple[str, int]] = []

        class Observed(DirectoryServerProtocol):
            def request_answered(self, reply: bytes, address: tuple[str, int]) -> None:
                answered.append(address)

        network = UUID(int=0xD)
        text = f'[queue_manager]\nenterprise = "{ENTERPRISE}"\nconnected_networks = ["{network}"]\n'
        server = Server(
            self.configuration(text), gate=OneAddress("198.51.100.7"), discovery=Observed, clock=ManualClock()
        )
        parts = await self.parts_of(server)
        manager, discovery = parts.manager, parts.discovery
        self.assertTrue(manager.trusts("198.51.100.7"))
        self.assertFalse(manager.trusts("127.0.0.1"), "this machine is not in the gate's list")
        discovery.makeConnection(FakeDatagramTransport())
        discovery.datagramReceived(
            TopologyClientRequest(ENTERPRISE, UUID(int=1), UUID(int=2)).to_bytes(), ("127.0.0.9", 4000)
        )
        self.assertEqual(answered, [("127.0.0.9", 4000)])

    async def test_parts_of_plugins(self) -> None:
        """Names in the configuration select plugins, which get their argument and the server's context."""
        factories = [
            Recorded("scripted", ScriptedRouter()),
            Recorded("memory", MemoryAccessControl()),
            Recorded("labels", LabelPolicy()),
        ]
        for factory in factories:
            self.use(factory.name, factory)
        parts = await self.parts_of(Server(self.configuration(NAMED), IReactorTime(reactor)))
        self.assertEqual([each.made[0][0] for each in factories], ["here", "", "drop"])
        for factory in factories:
            context = factory.made[0][1]
            self.assertEqual((context.name, context.data), ("ALPHA", self.data))
            self.assertEqual(context.identifier, parts.sessions.identifier)

    def test_names_that_are_unknown(self) -> None:
        """The check of a configuration reports each with its line."""
        error = self.assertRaises(ConfigurationError, self.configuration, NAMED)
        self.assertEqual(
            [str(problem).partition("msmq.toml:")[2] for problem in error.problems],
            [
                "8: routing.backend: cannot be used: unknown router 'scripted'; known are: directory",
                "11: security.access: cannot be used: unknown access control 'memory'; known are:"
                " descriptors",
                "12: security.session_policy: cannot be used: unknown session policy 'labels'; known are:"
                " none",
            ],
        )

    def test_parts_that_lack_a_method(self) -> None:
        """An object that is not what its argument wants is refused by name, before anything starts."""
        configuration = self.configuration()
        for name, interface in (
            ("router", "IRouter"),
            ("directory", "IDirectory"),
            ("store", "IMessageStore"),
            ("access", "IAccessControl"),
            ("session_policy", "ISessionPolicy"),
            ("gate", "IGate"),
        ):
            arguments: Any = {name: object()}
            error = self.assertRaises(LocalProtocolError, Server, configuration, **arguments)
            self.assertIn(
                f"{name} cannot be used as an {interface}: an object of builtins.object", str(error)
            )
        for name in ("ping_protocol", "discovery"):
            wrong: Any = {name: "ping"}
            error = self.assertRaises(LocalProtocolError, Server, configuration, **wrong)
            self.assertIn(f"{name} is an object of str", str(error))

    def test_plugin_that_refuses_its_argument(self) -> None:
        """Its reason is reported with the name and the argument; so is a product that cannot be used."""
        context = ServerContext(
            identifier=ManualClock,  # type: ignore[arg-type]
            name="ALPHA",
            data=self.data,
            clock=ManualClock(),
            reactor=IReactorTime(reactor),
            directory=None,
        )
        self.use("scripted", Recorded("scripted", None))
        error = self.assertRaises(PluginError, make_router, "scripted:nowhere", context)
        self.assertEqual(str(error), "routing 'scripted:nowhere': has no such file")
        error = self.assertRaises(PluginError, make_session_policy, "scripted", context)
        self.assertEqual(
            str(error),
            "what the plugin 'scripted' has created cannot be used: None does not provide ISessionPolicy",
        )
