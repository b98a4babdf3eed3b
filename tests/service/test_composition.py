"""The composition root leaves nothing to a default that a configuration could say."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.interface import InterfaceClass

from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.directory.factory import make_directory
from msmq.directory.ldap.provider import LdapDirectory
from msmq.manager.manager_settings import ORIGINAL
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.networks import AttachedNetwork
from msmq.service import composition, directory_servers, security_parts
from msmq.service.composition import ServerParts, compose
from msmq.service.configuration import load
from msmq.service.directory_servers import DirectorySearch
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from tests.builders import ALPHA
from tests.shares import SHARES

DEFAULTS = {
    # Its queue manager attaches itself.
    ("DiallingSessionFactory", "broker"),
    # The domain is found in the directory.
    ("HostIdentity", "domain_name"),
    ("HostIdentity", "domain_identifier"),
    # Chance, of which tests have their own.
    ("KeyRing", "make"),
    ("OwnNames", "is_local"),
}
"""The only parameters that the composition leaves out, but for those of L{CONSTANTS}."""

CONSTANTS = {"ControlLimits": ("receives", "connections"), "GatedPeers": ("gate",)}
"""Parameters that are given; the others are the same for every server, or have no effect beside them."""


MODULES = (composition, security_parts)
"""What makes the parts of a server from its configuration."""


def named(name: str) -> object:
    """What a name of the composition means."""
    return next((vars(module)[name] for module in MODULES if name in vars(module)), None)


REPLACED: Mapping[str, Any] = {"replacements.session_factory": DiallingSessionFactory}
"""What the composition calls where an application has no other."""


def omitted(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The class and the parameter of each constructor argument that a function leaves out."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        if isinstance(node.func, ast.Name):
            called = node.func.id
            made = named(called)
        else:
            made = REPLACED.get(ast.unparse(node.func))
            called = getattr(made, "__name__", "")
        if not (inspect.isclass(made) or inspect.isfunction(made)) or not made.__module__.startswith("msmq."):
            continue
        if inspect.isclass(made) and issubclass(made, Enum):
            continue
        parameters = inspect.signature(made).parameters
        given = {keyword.arg for keyword in node.keywords} | set(list(parameters)[: len(node.args)])
        needed = CONSTANTS.get(called)
        for name in parameters if needed is None else needed:
            if name not in given:
                yield called, name


class CompositionTests(SynchronousTestCase):
    """Objects that C{compose} and its helpers construct."""

    def trees(self) -> list[ast.Module]:
        """The source of the composition."""
        return [ast.parse(inspect.getsource(module)) for module in MODULES]

    def test_every_argument_is_given(self) -> None:
        """Each constructor gets every argument: a setting that is forgotten here would be one without effect.

        That is worst where the default is more permissive than what the configuration says.
        """
        functions = [node for tree in self.trees() for node in tree.body if isinstance(node, ast.FunctionDef)]
        found = {each for function in functions for each in omitted(function)}
        self.assertEqual(found, DEFAULTS)

    def test_a_missing_argument_is_found(self) -> None:
        """Trusted peers without their acknowledgers are found, given by position or by name."""
        for source in ("TrustedPeers(1, 2)", "TrustedPeers(unauthenticated=1, peers=2)"):
            [function] = ast.parse(f"def f():\n    {source}").body
            assert isinstance(function, ast.FunctionDef)
            self.assertEqual(set(omitted(function)), {("TrustedPeers", "acknowledgers")})

    def test_every_adaptation_may_fail(self) -> None:
        """A directory without an optional interface is used without it; no server fails to start by it."""
        calls = [
            node
            for tree in self.trees()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and isinstance(adapted := named(node.func.id), InterfaceClass)
            and adapted.__module__.startswith("msmq.")
        ]
        self.assertGreater(len(calls), 3)
        for call in calls:
            self.assertEqual([*map(ast.unparse, call.args)], ["directory", "None"], ast.unparse(call))


class DirectoryTests(SynchronousTestCase):
    """A server with a directory, and one that answers discovery."""

    def compose(self, text: str, found: tuple[str, ...] = ()) -> tuple[ServerParts, list[Any]]:
        """The parts of a server, and the directories that were created.

        @param found: directory servers that were discovered before.
        """
        data = Path(self.mktemp())
        data.mkdir()
        path = data / "msmq.toml"
        path.write_text(
            f"[queue_manager]\nname = 'ALPHA'\ndata = '{data}'\n{text}\n[listen]\ncontrol = 'off'\n"
        )
        configuration = load(path)
        clock, real = ManualClock(), cast(Any, reactor)
        search = DirectorySearch(configuration, real, clock)
        search.found = found
        made: list[Any] = []

        def remember(*arguments: Any) -> object:
            made.append(make_directory(*arguments))
            return made[-1]

        self.patch(composition, "make_directory", remember)
        parts = compose(
            configuration,
            ALPHA,
            MemoryMessageStore(),
            real,
            shares=SHARES,
            server=NoServerConfiguration(),
            clone=ORIGINAL,
            clock=clock,
            search=search,
        )
        return parts, made

    def test_servers_that_were_found(self) -> None:
        """A directory without configured servers uses those that discovery has found."""
        _, [directory] = self.compose("[directory]\nbackend = 'ldap:///DC=example'\n", ("ds.example",))
        self.assertIsInstance(directory, LdapDirectory)
        self.assertEqual(directory.servers, ("ds.example",))

    def test_search_of_an_ipv6_server(self) -> None:
        """A server that is bound to IPv6 searches directory servers in IPv4, on the loopback too."""
        clock = ManualClock()
        network = Network(clock.reactor)
        for listen in (
            "session = 'tcp6:1801:interface=\\:\\:1'\ndiscovery = 'off'",
            "discovery = 'udp:1801:interface=\\:\\:1'",
        ):
            path = Path(self.mktemp())
            path.write_text(f"[queue_manager]\nname = 'ALPHA'\n[listen]\n{listen}\n")
            host = cast(Any, network.host("127.0.0.1"))
            found = Deferred.fromCoroutine(DirectorySearch(load(path), host, clock).find())
            self.assertNoResult(found)
            self.assertEqual(network.datagrams[-1].destination, ("127.255.255.255", 1801))
            clock.advance(15)
            self.assertEqual(self.successResultOf(found), ())

    def test_search_of_a_server_on_all_addresses(self) -> None:
        """A server that listens on every address searches every network."""
        clock = ManualClock()
        path = Path(self.mktemp())
        path.write_text(
            "[queue_manager]\nname = 'ALPHA'\n[listen]\ndiscovery = 'udp:1801:interface=0.0.0.0'\n"
        )
        asked: list[str] = []

        def networks(address: str) -> list[AttachedNetwork]:
            asked.append(address)
            return []

        self.patch(directory_servers, "attached_networks", networks)
        host = cast(Any, Network(clock.reactor).host("10.0.1.1"))
        found = Deferred.fromCoroutine(DirectorySearch(load(path), host, clock).find())
        self.assertEqual((self.successResultOf(found), asked), ((), [""]))

    def test_discovery(self) -> None:
        """A queue manager with connected networks answers discovery; one without does not."""
        network = "connected_networks = ['0e1e0f2c-6a3f-4a3e-9d3f-7f8a1f1f1f1f']"
        self.assertIsNotNone(self.compose(network)[0].discovery)
        self.assertIsNone(self.compose("")[0].discovery)
