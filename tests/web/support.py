"""A queue manager with its web endpoint, on a transport in memory, driven by one clock."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication
from msmq.control.server.factory import make_site
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration, ServerConfiguration
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges
from msmq.interfaces.shadows import IShadows
from msmq.manager.administration.metered_store import MeteredStore
from msmq.queues.arriving.message import Message
from msmq.storage.memory import MemoryMessageStore
from msmq.web.endpoint import WebEndpoint
from tests.control.callers.test_token_check import authentication, token_file
from tests.control.support import Answer, Disk
from tests.nodes.support import Node, NodesTestCase

T = TypeVar("T")
ORDERS = ".\\private$\\orders"
TOKEN = b"Bearer 0123456789abcdef0123456789abcdef"


class WebTestCase(NodesTestCase):
    """ALPHA has a web endpoint; BETA is a peer."""

    windows_names = False
    is_loopback = True
    tokens: tuple[str, ...] = ()
    anonymous: Role | None = Role.READER
    bridges: IBridges | None = None
    archive: IArchive | None = None
    shadows: IShadows | None = None

    def setUp(self) -> None:
        self.disk = Disk()
        super().setUp()
        self.addCleanup(self.alpha.service.stopService)
        self.addCleanup(self.beta.service.stopService)
        self.site = self.endpoint.site(
            self.alpha.service,
            self.clock.reactor,
            control=make_site(
                self.alpha.service,
                members=EstateMembers(("ALPHA", "alpha.example.com"), {}, None),
                configuration=self.server_configuration(),
                clock=self.clock.reactor,
            ),
            tokens=self.authentication(),
            is_loopback=self.is_loopback,
            anonymous=lambda: self.anonymous,
            windows_names=self.windows_names,
            members={},
            member_token_file=None,
            reloads={"done": 0},
            bridges=self.bridges,
            archive=self.archive,
            shadows=self.shadows,
        )

    def node(self, name: str, identifier: Any, **kwargs: Any) -> Node:
        """ALPHA's store is measured."""
        if name == "ALPHA":
            store = MeteredStore(self.disk, self.clock.reactor.seconds)
            self.endpoint = WebEndpoint.around(store)
            kwargs = {"store": store, **self.options(), **kwargs}
        else:
            kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def authentication(self) -> TokenAuthentication | None:
        """The lines of C{tokens} as a file; C{None} without any."""
        if not self.tokens:
            return None
        self.token_file = token_file(self, *self.tokens)
        return authentication(self.token_file, self.clock.reactor)

    def server_configuration(self) -> ServerConfiguration:
        """The configuration of ALPHA's server."""
        return NoServerConfiguration()

    def options(self) -> Mapping[str, Any]:
        """Options of ALPHA."""
        return {}

    def run_now(self, coroutine: Coroutine[Deferred[object], Any, T]) -> T:
        """The result of something that needs no time."""
        done = Deferred.fromCoroutine(coroutine)
        self.clock.advance(0)
        return self.successResultOf(done)

    def make_queue(self, name: str = "orders", node: Node | None = None, **options: Any) -> str:
        """Create a private queue, and return its path."""
        path = f".\\private$\\{name}"
        self.run_now((node or self.alpha).service.create_queue(path, **options))
        return path

    def put(self, destination: str, *bodies: bytes, node: Node | None = None, **properties: Any) -> None:
        """Send a message for each body."""
        messages = [Message(body=body, **properties) for body in bodies]
        self.run_now((node or self.alpha).service.send(destination, messages))

    def connect(self) -> tuple[Any, StringTransport]:
        """A connection to the endpoint."""
        transport = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 40000))
        protocol = self.site.buildProtocol(IPv4Address("TCP", "127.0.0.1", 40000))
        protocol.makeConnection(transport)
        return protocol, transport

    def get(
        self,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """One request, answered without any time passing."""
        protocol, transport = self.connect()
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [
            f"{name}: {value}" for name, value in {"Host": "127.0.0.2:15801", **(headers or {})}.items()
        ]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        protocol.dataReceived("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        for _ in range(1000):
            if transport.value():
                break
            self.clock.advance(0)
        return Answer(transport.value())

    def metrics(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """The values of C{/metrics} by name and labels, as the parser of prometheus_client reads them."""
        answer = self.get("/metrics")
        self.assertEqual((answer.status, answer.headers["Content-Type"].split(";")[0]), (200, "text/plain"))
        found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        for family in text_string_to_metric_families(answer.body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """One value; C{None} if it is absent."""
        return self.metrics().get(name, {}).get(tuple(sorted(labels.items())))
