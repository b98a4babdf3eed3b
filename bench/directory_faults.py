"""Two servers that exchange messages while everything happens to their directory that happens to one.

ALPHA sends a message every 20 ms to a queue of BETA that it knows, and asks for one that only the directory
knows, while the directory is stopped, frozen, answers garbage, drops its connections, and refuses a password.
After each fault ALPHA asks for another queue of BETA; the time until that is found is the recovery. Both
servers run in this process, whose iterations of the reactor are measured in processor time. The directory is
a real OpenLDAP server, and a domain that Samba serves; a proxy in a process of its own, through which they
are reached, does what is done to them.

C{python bench/directory_faults.py [--seconds N]} prints the figures; nothing here fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import attrs
from directory import LONGEST_TURN, _most_resident
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from rig.measuring import Turns

SECONDS: Final = 5.0
"""How long each fault lasts."""
PAUSE: Final = 0.02
RECOVERY: Final = 2.0
"""Seconds within which the directory is used again after a fault."""
ADDRESS: Final = "127.0.0.1"

_CONFIGURATION: Final = """
[queue_manager]
session_port = {port}
[listen]
session = "tcp:{port}:interface=127.0.0.1"
ping = "off"
discovery = "off"
[directory]
backend = "ldap://127.0.0.1:{proxy}/{base}"
bind_dn = "{account}"
password_file = "{secret}"
[hosts]
{other} = "127.0.0.1:{other_port}"
"""

_PROXY: Final = """
import sys
from twisted.internet import reactor
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.stdio import StandardIO
from twisted.protocols.basic import LineReceiver
from twisted.protocols.portforward import ProxyFactory, ProxyServer

port, host, target = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
mode, connections = "pass", []

class Connection(ProxyServer):
    def connectionMade(self):
        connections.append(self)
        self.held = []
        if mode != "garbage":
            ProxyServer.connectionMade(self)
    def dataReceived(self, data):
        if mode == "garbage":
            self.transport.write(b"HTTP/1.1 400 Bad Request\\\\r\\\\n\\\\r\\\\n" + bytes(range(256)) * 64)
        elif mode == "frozen":
            self.held.append(data)
        else:
            ProxyServer.dataReceived(self, data)
    def connectionLost(self, reason):
        connections.remove(self)
        if self.peer is not None:
            ProxyServer.connectionLost(self, reason)

class Orders(LineReceiver):
    delimiter = b"\\\\n"
    listening = None
    def connectionMade(self):
        self.lineReceived(b"pass")
    def lineReceived(self, line):
        global mode
        mode = line.decode()
        if mode in ("stopped", "dropped"):
            for each in list(connections):
                each.transport.abortConnection()
        if mode == "stopped":
            self.listening.stopListening().addCallback(self.done)
            self.listening = None
            return
        if self.listening is None:
            factory = ProxyFactory(host, target)
            factory.protocol = Connection
            self.listening = reactor.listenTCP(port, factory, interface="127.0.0.1")
        if mode == "pass":
            for each in list(connections):
                held, each.held = each.held, []
                for data in held:
                    each.dataReceived(data)
        self.done(None)
    def done(self, _):
        self.sendLine(b"done")
    def connectionLost(self, reason):
        reactor.stop()

StandardIO(Orders())
reactor.run()
"""


class Proxy:
    """Passes on what goes to a directory server, or does something else."""

    def __init__(self, host: str, target: int, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROXY.replace("\\\\", "\\"), str(port), host, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._wait()

    def become(self, mode: str) -> None:
        """Pass everything on, or be stopped, frozen, garbage; C{dropped} closes the connections once."""
        assert self._process.stdin is not None
        self._process.stdin.write(mode.encode() + b"\n")
        self._process.stdin.flush()
        self._wait()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@attrs.frozen
class Fault:
    """One thing that happens to a directory, and how it is undone."""

    name: str
    begin: Callable[[], object]
    end: Callable[[], object]


class Estate:
    """ALPHA and BETA, and what they have exchanged."""

    def __init__(self, reactor: Any, place: Path, turns: Turns) -> None:
        self._reactor = reactor
        self._place = place
        self._turns = turns
        self._servers: list[Any] = []
        self._sent = 0
        self._refused = 0
        self._is_sending = False

    async def start(self, proxy_port: int, base: str, account: str, secret: Path, ports: list[int]) -> None:
        """Start both, with queues that ALPHA does not know."""
        from msmq.service.configuration import Overrides, load
        from msmq.service.server import Server

        managers = []
        for name, other in (("ALPHA", "BETA"), ("BETA", "ALPHA")):
            port, other_port = ports if name == "ALPHA" else reversed(ports)
            file = self._place / f"{name}.toml"
            file.write_text(
                _CONFIGURATION.format(
                    port=port,
                    other=other,
                    other_port=other_port,
                    proxy=proxy_port,
                    base=base,
                    account=account,
                    secret=secret,
                )
            )
            overrides = Overrides(name=name, data=os.fspath(self._place / name), storage="memory")
            server = Server(load(file, overrides), self._reactor)
            server.startService()
            self._servers.append(server)
            await server.started
            managers.append(server.manager)
        self._alpha, self._beta = managers
        await self._beta.create_queue("BETA\\orders", quota=100_000)
        await self._send("BETA\\orders")

    async def stop(self) -> None:
        """Stop both."""
        for server in self._servers:
            await server.stopService()

    async def _send(self, path: str) -> None:
        from msmq.queues.arriving.message import Message

        await self._alpha.send(path, [Message(body=b"x" * 100)])

    async def _send_on(self) -> None:
        """The first application: sends all the time."""
        while self._is_sending:
            await self._send("BETA\\orders")
            self._sent += 1
            await deferLater(self._reactor, PAUSE)

    async def _ask_on(self) -> None:
        """The second application: looks up a wrong queue name."""
        from msmq.structures.status import MQError

        while self._is_sending:
            try:
                await self._send("BETA\\nowhere")
            except MQError:
                self._refused += 1
            await deferLater(self._reactor, 10 * PAUSE)

    async def suffer(self, fault: Fault, number: int, seconds: float) -> tuple[str, ...]:
        """A line of figures."""
        path = f"BETA\\later{number}"
        await self._beta.create_queue(path)
        self._sent, self._refused, self._is_sending = 0, 0, True
        await deferLater(self._reactor, 0.1)
        before = await self._count("BETA\\orders")
        self._turns.begin()
        sending = [Deferred.fromCoroutine(each()) for each in (self._send_on, self._ask_on)]
        fault.begin()
        self._turns.begin()
        await deferLater(self._reactor, seconds)
        longest = self._turns.longest
        fault.end()
        self._turns.begin()
        ended = time.monotonic()
        await self._found(path)
        recovery = time.monotonic() - ended
        self._is_sending = False
        await DeferredList(sending, fireOnOneErrback=True)
        await deferLater(self._reactor, 0.5)
        arrived = await self._count("BETA\\orders") - before
        longest = max(longest, self._turns.longest)
        return (
            fault.name,
            str(self._sent),
            str(arrived),
            str(self._refused),
            f"{longest * 1000:.1f}",
            f"{recovery:.2f}",
            f"{_most_resident():.0f}",
        )

    async def _count(self, path: str) -> int:
        count = self._beta.inspection.queue(path).messages
        assert isinstance(count, int)
        return count

    async def _found(self, path: str) -> None:
        from msmq.structures.status import MQError

        while True:
            try:
                await self._send(path)
            except MQError:
                await deferLater(self._reactor, PAUSE)
            else:
                return


def _run(reactor: Any, work: Awaitable[None]) -> None:
    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    async def do() -> None:
        await work

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(do()).addBoth(ended))
    reactor.run()


def faults(proxy: Proxy, secret: Path, password: str) -> list[Fault]:
    """In the order in which they happen."""

    def refuse() -> None:
        secret.write_text("not the password")
        proxy.become("dropped")

    def accept() -> None:
        secret.write_text(password)
        proxy.become("pass")

    def through(mode: str) -> Fault:
        return Fault(mode, lambda: proxy.become(mode), lambda: proxy.become("pass"))

    return [
        Fault("none", lambda: None, lambda: None),
        *map(through, ("stopped", "frozen", "garbage", "dropped")),
        Fault("password refused", refuse, accept),
    ]


def measure(directory: str, seconds: float) -> None:
    """One timeline, in this process."""
    from twisted.internet import reactor

    from tests.servers import samba, slapd
    from tests.servers.slapd import free_port

    turns = reactor._poller = Turns(reactor._poller)  # type: ignore[attr-defined]
    place = Path(tempfile.mkdtemp(prefix="msmq-bench-"))
    secret = place / "secret"
    if directory == "slapd":
        server: Any = slapd.SlapdServer()
        host, port, base, account, password = (
            ADDRESS,
            server.port,
            slapd.SUFFIX,
            slapd.ADMINISTRATOR,
            slapd.PASSWORD,
        )
    else:
        server = samba.SambaServer("127.13.0.5")
        host, port, base, account, password = (
            server.address,
            samba.PORT,
            samba.DOMAIN,
            samba.ADMINISTRATOR,
            samba.PASSWORD,
        )
        for name in ("ALPHA", "BETA"):
            server.tool("computer", "create", name)
    secret.write_text(password)
    proxy_port = free_port()
    proxy = Proxy(host, port, proxy_port)
    estate = Estate(reactor, place, turns)

    async def work() -> None:
        from msmq.directory.ldap.provider import LdapDirectory
        from msmq.directory.ldap.settings import LdapServer, LdapSettings
        from msmq.membership.objects import QueueManagerObject, SiteObject
        from msmq.net.clock import SystemClock
        from msmq.service.process.collector import settle

        settings = LdapSettings((LdapServer(host, port),), base, bind_name=account, password_file=secret)
        administrator = LdapDirectory(settings, SystemClock(), reactor)
        site = (await administrator.read(SiteObject))["identifier"]
        for name in ("ALPHA", "BETA"):
            await administrator.create(QueueManagerObject(computer_name=name, site_identifier_list=(site,)))
        await administrator.close()
        await estate.start(proxy_port, base, account, secret, [free_port(), free_port()])
        settle()
        for number, fault in enumerate(faults(proxy, secret, password)):
            line = await estate.suffer(fault, number, seconds)
            sys.stdout.write("".join(f"{each:>18}" for each in (directory, *line)) + "\n")
            sys.stdout.flush()
        await estate.stop()

    try:
        _run(reactor, work())
    finally:
        proxy.close()
        server.remove()
        shutil.rmtree(place)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--directory", choices=("slapd", "samba"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    if chosen.directory is not None:
        measure(chosen.directory, chosen.seconds)
        return
    titles = ("directory", "fault", "sent", "arrived", "refused", "longest turn ms", "recovery s", "MB")
    sys.stdout.write("".join(f"{each:>18}" for each in titles) + "\n")
    sys.stdout.write(f"{'goals':>18}{'':54}{LONGEST_TURN:>18.1f}{RECOVERY:>18.2f}\n")
    sys.stdout.flush()
    for directory in ("slapd", "samba"):
        subprocess.run(
            [sys.executable, __file__, "--directory", directory, "--seconds", str(chosen.seconds)], check=True
        )


if __name__ == "__main__":
    main()
