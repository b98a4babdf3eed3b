"""A receiver of messages for tests of senders: a queue manager in memory with scripted faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.interfaces import IReactorTime

from msmq.broker.broker import Broker
from msmq.broker.outcomes import Outcome, accept, reject
from msmq.decoding.message_json import message_json
from msmq.double.events import DoubleEvent
from msmq.double.fault_plan import FaultPlan
from msmq.double.script import DoubleScript
from msmq.double.script_file import parse_script
from msmq.double.session import DoublePingProtocol, DoublePlay, DoubleSession, ScriptedRefusals
from msmq.errors import LocalProtocolError
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.net.clock import SystemClock
from msmq.net.reactors import running_reactor
from msmq.observed_events import ObservedEvents
from msmq.quoting import kind_of, quoted
from msmq.service.configuration import Overrides, load
from msmq.service.data_directory.identity import load_identity
from msmq.service.process.server_run import ServerRun
from msmq.service.server import Server
from msmq.service.settings import Configuration
from msmq.storage.memory import MemoryMessageStore

MOST_EVENTS: Final = 10_000
"""Limit on the events that a double keeps; the oldest are removed."""
MOST_TEXT: Final = 1 << 26
"""Limit on the characters of the messages in these events, bodies for example."""


class FaultInjectingDouble(Service):
    """A queue manager in memory for tests of senders: it receives every message, and injects faults.

    It is a receiver as the documents want one, with duplicates, streams, OrderAcks and FinalAcks, and queues
    that the first message creates, except for what the script says ([MS-MQQB] 3.1.5.8). It accepts messages
    from every address without authentication, and sends the negative acknowledgements that they request.
    It is a Twisted service: C{startService}, then C{await double.started}.

    @param script: a L{DoubleScript}, or its text in TOML; by default no faults.
    @param address: the IP address at which it listens, at the ports 1801 and 3527; by default 127.0.0.1.
    @param name: ComputerName.
    @param reactor: by default the global one.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    @raise ScriptError: the text of the script has errors.
    @ivar events: what happened, the latest L{MOST_EVENTS}.
    @ivar started: fires when it listens, or with the reason why it cannot start; each start makes a new one.
    """

    def __init__(
        self,
        script: DoubleScript | str | None = None,
        *,
        address: str = "127.0.0.1",
        name: str = "DOUBLE",
        reactor: IReactorTime | None = None,
    ) -> None:
        self._script = _checked_script(script)
        self._address = _checked_address(address)
        given: object = name
        if not isinstance(given, str) or not given:
            raise LocalProtocolError(f"FaultInjectingDouble: name is {quoted(given)}; it has to be a text")
        self._name = name
        self._reactor = reactor
        self._run: ServerRun | None = None
        self._observed = ObservedEvents[DoubleEvent](MOST_EVENTS, MOST_TEXT, lambda event: event.message)
        self.started: Deferred[None] = Deferred()

    @property
    def _server(self) -> Server | None:
        """The server, from its start until its stop."""
        return None if self._run is None else self._run.server

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which it listens: C{TCP 127.0.0.1:1801}; empty before it has started."""
        return () if self._server is None else self._server.addresses

    @property
    def events(self) -> deque[DoubleEvent]:
        """What happened, the latest L{MOST_EVENTS}."""
        return self._observed.latest

    @property
    def observers(self) -> list[Callable[[DoubleEvent], object]]:
        """Called with each event. An error of one is logged, which fails a test of trial."""
        return self._observed.observers

    @property
    def received(self) -> Sequence[DoubleEvent]:
        """The events of messages that were received from their queue, each once."""
        return [event for event in self.events if event.kind == "received"]

    def when(self, condition: Callable[[DoubleEvent], object]) -> Deferred[DoubleEvent]:
        """Fires with the first event, of the past or the future, for which C{condition} is true."""
        return self._observed.when(condition)

    def cut(self) -> int:
        """Close every session at once, without what is still to be written; returns how many there were."""
        if self._server is None or not self._server.is_ready:
            return 0
        connections = self._server.sessions.connections
        for connection in connections:
            connection.transport.abortConnection()  # type: ignore[union-attr]
        return len(connections)

    # Called by Twisted

    def startService(self) -> None:
        """Start; C{started} fires with the result."""
        Service.startService(self)
        run = self._run = ServerRun(f"the double {self._name}", "msmq-double-")
        self.started = ensureDeferred(run.start(self._begin(run)))

    def stopService(self) -> Deferred[None]:
        """Stop; what it has received is forgotten, its events are kept.

        Each caller gets a separate Deferred, and cancelling it ends the wait alone, not the stop.

        @return: fires when it has stopped: its ports are closed.
        """
        Service.stopService(self)
        self.started.addErrback(lambda _: None)
        self.started.cancel()
        return succeed(None) if self._run is None else self._run.stop()

    async def _begin(self, run: ServerRun) -> None:
        reactor = running_reactor() if self._reactor is None else self._reactor
        clock = SystemClock()
        play = DoublePlay(FaultPlan(self._script), ScriptedRefusals(), self._observed.add, reactor, clock)
        program = DoubleBroker(play).program(reactor, clock)
        home = run.make_directory()
        if self._script.identifier is not None:
            identifier = self._script.identifier
            load_identity(home, lambda: identifier)
        server = Server(
            self._configuration(home),
            reactor,
            session_protocol=partial(DoubleSession, intake=program, play=play),
            ping_protocol=partial(DoublePingProtocol, play=play),
            session_policy=play.refusals,
            store=MemoryMessageStore(durable=True),
            program=program,
        )
        run.begin(server)
        await server.started

    def _configuration(self, home: Path) -> Configuration:
        found = load(
            None, Overrides(name=self._name, data=str(home), address=self._address, storage="memory")
        )
        quota = min(found.limits.quota, found.limits.express_memory // 1024)
        return attrs.evolve(
            found,
            listen=attrs.evolve(found.listen, control=None),
            limits=attrs.evolve(found.limits, quota=quota),
            security=attrs.evolve(found.security, unauthenticated="allow", permit_insecure_nacks=True),
        )


class DoubleBroker(Broker):
    """Receives every message, and rejects those that the script refuses in their queue."""

    def __init__(self, play: DoublePlay) -> None:
        super().__init__(concurrency=16)
        self._play = play

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        fault = self._play.rejected.pop(message.view.identity, None)
        described = message_json(message.view, lookup_id=message.lookup_id, is_kept=False)
        action = "" if fault is None else fault.action.value
        self._play.report(
            DoubleEvent("received", self._play.clock.now().wall, action=action, message=described)
        )
        return accept() if fault is None else reject(fault.refusal_class, "the script of the double")


def _checked_script(script: object) -> DoubleScript:
    if script is None:
        return DoubleScript()
    if isinstance(script, str):
        return parse_script(script)
    if not isinstance(script, DoubleScript):
        raise LocalProtocolError(
            f"FaultInjectingDouble: script is {kind_of(script)}; it has to be a DoubleScript, or its"
            " text in TOML"
        )
    return script


def _checked_address(address: object) -> str:
    try:
        return str(ip_address(address if isinstance(address, str) else ""))
    except ValueError as error:
        raise LocalProtocolError(
            f"FaultInjectingDouble: address is {quoted(address)}; it has to be an IP address as text, such as"
            " 127.0.0.9"
        ) from error
