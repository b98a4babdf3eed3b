"""Senders: messages to other queue managers, each confirmed, without a queue manager of one's own.

They do what the documents ask of a sender: the session with its window and its acknowledgements ([MS-MQQB]
3.1.5), the streams of transactional messages (3.1.1.3.1.4), retries over reconnections, and expiry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.interfaces.storage import IMessageStore
from msmq.net.hosts import parse_host_entry
from msmq.net.reactors import running_reactor
from msmq.net.session import SessionProtocol
from msmq.net.session_owner import SessionOwner
from msmq.queues.arriving.message import Message
from msmq.quoting import kind_of, quoted
from msmq.sender.deliveries import MOST_OUTSTANDING, Deliveries
from msmq.sender.watched_store import WatchedStore
from msmq.service.configuration import Overrides, load
from msmq.service.process.server_run import ServerRun
from msmq.service.settings import Configuration, ListenSettings
from msmq.session.session import Session
from msmq.slots import Slots
from msmq.storage.identity import identity_of
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.status import MQError, Status
from msmq.wire.addresses import read_address

OUTSTANDING: Final = 1_000
"""The default of the limit on messages whose results are not known."""

_PROTOCOLS: Final = (DirectProtocol.OS, DirectProtocol.TCP)

T = TypeVar("T")


class _SenderSession(SessionProtocol):
    """A session that reports express messages when they are written; nothing else confirms them early."""

    def __init__(
        self, factory: SessionOwner[SessionProtocol], session: Session, deliveries: Deliveries
    ) -> None:
        super().__init__(factory, session)
        self._deliveries = deliveries

    def message_sent(self, message: OutgoingMessage) -> None:
        """See L{SessionProtocol.message_sent}."""
        if not message.is_recoverable:
            # It is written at the end of this iteration of the reactor at the latest.
            self._factory.reactor.callLater(0, self._deliveries.delivered, identity_of(message.packet))


class Sender:
    """Sends messages to any number of queue managers, and reports when each is delivered.

    An async context manager::

        async with Sender() as sender:
            await sender.send(r"DIRECT=OS:BETA\\private$\\orders", Message(body=b"two boxes"))

    It opens one session to each queue manager, reconnects as long as messages are pending, and listens
    nowhere. Pending messages are in memory, so they are lost when the process or the sender ends; an
    application whose messages have to survive that uses L{msmq.client} or an embedded queue manager.

    On asyncio's reactor it is used in tasks of asyncio, elsewhere in coroutines of Twisted.

    @param name: ComputerName; by default that of the host.
    @param hosts: addresses by computer name, as in C{[hosts]} of the configuration.
    @param outstanding: limit on the messages whose results are not known, 1 to 100,000; beyond it L{send}
        waits.
    @param configuration: everything else, as L{load<msmq.service.configuration.loading.load>} reads it; its
        storage and its endpoints are not used.
    @param reactor: by default the global one.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        hosts: Mapping[str, str] | None = None,
        outstanding: int = OUTSTANDING,
        configuration: Configuration | None = None,
        reactor: IReactorTime | None = None,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise LocalProtocolError(f"Sender: name is {kind_of(name)}; it has to be a str")
        if name is not None and configuration is not None:
            raise LocalProtocolError("Sender: name is part of configuration; give one of the two")
        if configuration is not None and not isinstance(configuration, Configuration):
            raise LocalProtocolError(
                f"Sender: configuration is {kind_of(configuration)}; it has to be a Configuration, as load()"
                " returns it"
            )
        if isinstance(outstanding, bool) or not isinstance(outstanding, int):
            raise LocalProtocolError(f"Sender: outstanding is {kind_of(outstanding)}; it has to be an int")
        if not 1 <= outstanding <= MOST_OUTSTANDING:
            raise LocalProtocolError(
                f"Sender: outstanding is {outstanding}; it has to be from 1 to {MOST_OUTSTANDING}"
            )
        self._name = name
        self._hosts = _checked_hosts(hosts)
        self._configuration = configuration
        self._reactor = reactor
        self._deliveries = Deliveries()
        self._slots = Slots(outstanding)
        self._run: ServerRun | None = None

    # Life

    async def __aenter__(self) -> Self:
        await _awaited(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the sessions. Pending messages are lost, and their L{send} raises L{NotDelivered
        <msmq.sender.deliveries.NotDelivered>}.
        """
        await _awaited(self._stop())

    async def _start(self) -> None:
        if self._run is not None and not self._run.is_ending:
            raise LocalProtocolError("this sender is open")
        run = self._run = ServerRun("a sender", "msmq-sender-")
        # Those of the run before stay closed: a send that it was storing ends with it.
        self._deliveries = Deliveries()
        try:
            await run.start(self._begin(run))
        except Exception:
            await run.stop()
            raise

    async def _begin(self, run: ServerRun) -> None:
        # It brings a reactor, which an application chooses before.
        from msmq.service.server import Server

        self._reactor = reactor = running_reactor() if self._reactor is None else self._reactor
        store = WatchedStore(cast(IMessageStore, MemoryMessageStore(durable=True)), self._deliveries)
        server = Server(
            self._loaded(str(run.make_directory())),
            reactor,
            session_protocol=partial(_SenderSession, deliveries=self._deliveries),
            store=cast(IMessageStore, store),
        )
        run.begin(server)
        await server.started

    def _loaded(self, scratch: str) -> Configuration:
        found = self._configuration
        if found is None:
            found = load(None, Overrides(name=self._name, data=scratch, storage="memory"))
        limits = found.limits
        return attrs.evolve(
            found,
            storage="memory",
            hosts={**found.hosts, **self._hosts},
            queue_manager=attrs.evolve(found.queue_manager, data=Path(scratch)),
            listen=ListenSettings(session=None, ping=None, discovery=None, control=None),
            limits=attrs.evolve(limits, quota=min(limits.quota, limits.express_memory // 1024)),
        )

    async def _stop(self) -> None:
        self._deliveries.close()
        # Another start may be in progress, or have ended, before this stop has.
        if self._run is not None:
            await self._run.stop()

    # Sending

    @property
    def pending(self) -> int:
        """The messages whose results are not known."""
        return len(self._deliveries)

    async def send(
        self, destination: str, message: Message, *, timeout: float | None = None
    ) -> MessageIdentifier:
        """Send a message, and wait until it is delivered.

        A recoverable message is delivered when the next queue manager has acknowledged it, which has stored
        it then ([MS-MQQB] 3.1.5.5.2); a transactional one when its receiver has it in order (3.1.5.6); an
        express one when it is written to the connection, after which it may still be lost. Whether the
        queue exists there, and accepts the message, only an administration acknowledgement says.

        @param destination: a direct format name, such as C{DIRECT=OS:BETA\\private$\\orders}.
        @param timeout: seconds, those included for which it waits until fewer results are outstanding;
            C{None} for no limit other than the time limits of the message.
        @return: the identifier of the message.
        @raise NotDelivered: it has expired, or the sender was closed.
        @raise MQError: it is refused here, or MQ_ERROR_IO_TIMEOUT after C{timeout}: a message with an
            identifier remains pending, and may still be delivered.
        """
        if not isinstance(destination, str):
            raise LocalProtocolError(f"send: destination is {kind_of(destination)}; it has to be a str")
        if not isinstance(message, Message):
            raise LocalProtocolError(f"send: message is {kind_of(message)}; it has to be a Message")
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
            raise LocalProtocolError(f"send: timeout is {kind_of(timeout)}; it has to be a number")
        if timeout is not None and not timeout >= 0:
            raise LocalProtocolError(f"send: timeout is {timeout:g}; it has to be from 0")
        return await _awaited(self._send(destination, message, timeout))

    async def _send(self, destination: str, message: Message, timeout: float | None) -> MessageIdentifier:
        left = await self._acquire_slot(timeout)
        try:
            deliveries = self._deliveries
            with deliveries.sending():
                server = None if self._run is None else self._run.server
                if server is None or not server.is_ready or deliveries.is_closed:
                    raise MQError(
                        Status.MQ_ERROR_SERVICE_NOT_AVAILABLE,
                        "the sender is not open: use it in `async with`",
                    )
                [identifier] = await server.manager.send(destination, [message])
                delivered = deliveries.expect(identifier)
            await self._within(delivered, identifier, left, timeout)
            return identifier
        finally:
            self._slots.release()

    async def _acquire_slot(self, timeout: float | None) -> float | None:
        """Wait until fewer results are outstanding; returns the rest of the time."""
        acquired, reactor = self._slots.acquire(), self._reactor
        if timeout is None or reactor is None or acquired.called:
            await acquired
            return timeout

        def late(result: object, seconds: float) -> None:
            if isinstance(result, Failure) and result.check(CancelledError):
                raise MQError(
                    Status.MQ_ERROR_IO_TIMEOUT,
                    f"the results of {self.pending} messages are outstanding after {seconds:g} s, and this"
                    " one was not sent",
                )

        began = reactor.seconds()
        await acquired.addTimeout(timeout, reactor, late)
        return max(0.0, timeout - (reactor.seconds() - began))

    async def _within(
        self,
        delivered: Deferred[None],
        identifier: MessageIdentifier,
        left: float | None,
        timeout: float | None,
    ) -> None:
        if left is None:
            await delivered
            return

        def late(result: object, seconds: float) -> None:
            if isinstance(result, Failure) and result.check(CancelledError):
                raise MQError(
                    Status.MQ_ERROR_IO_TIMEOUT,
                    f"message {identifier} is not acknowledged after {timeout:g} s",
                )

        assert self._reactor is not None, "it is open"
        await delivered.addTimeout(left, self._reactor, late)


@attrs.frozen
class ConnectedPeer:
    """Another queue manager, to which a sender sends.

    @ivar address: its direct name: C{DIRECT=OS:BETA}.
    """

    _sender: Sender
    address: str

    async def send(self, queue: str, message: Message, *, timeout: float | None = None) -> MessageIdentifier:
        """Send a message to a queue there; see L{Sender.send}.

        @param queue: C{orders} for a private queue, or its path: C{.\\private$\\orders}, and C{.\\orders} for
            a public one.
        @raise LocalProtocolError: C{queue} is not such a name.
        """
        if not isinstance(queue, str):
            raise LocalProtocolError(f"send: queue is {kind_of(queue)}; it has to be a str")
        if not queue.strip("\\."):
            raise LocalProtocolError(
                f"send: queue is {quoted(queue)}; it has to name a queue, such as orders"
            )
        path = queue.removeprefix(".\\") if "\\" in queue else f"private$\\{queue}"
        return await self._sender.send(f"{self.address}\\{path}", message, timeout=timeout)


class PeerConnection:
    """The context manager of L{connect}."""

    def __init__(self, address: str, sender: Sender) -> None:
        self._address = address
        self._sender = sender

    async def __aenter__(self) -> ConnectedPeer:
        return ConnectedPeer(await self._sender.__aenter__(), self._address)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sender.close()


def connect(
    address: str,
    *,
    name: str | None = None,
    hosts: Mapping[str, str] | None = None,
    outstanding: int = OUTSTANDING,
    configuration: Configuration | None = None,
    reactor: IReactorTime | None = None,
) -> PeerConnection:
    """One queue manager, for an C{async with} statement.

    The session opens with the first message::

        async with connect("DIRECT=OS:BETA") as peer:
            await peer.send("orders", Message(body=b"two boxes"))

    @param address: C{DIRECT=OS:BETA} or C{DIRECT=TCP:192.0.2.1}, or only the name or the IP address.
    @param name: the others are those of L{Sender}.
    @raise LocalProtocolError: C{address} is no such address, or an option cannot be used.
    """
    sender = Sender(
        name=name, hosts=hosts, outstanding=outstanding, configuration=configuration, reactor=reactor
    )
    return PeerConnection(_direct(address), sender)


def _direct(address: object) -> str:
    if not isinstance(address, str):
        raise LocalProtocolError(f"connect: address is {kind_of(address)}; it has to be a str")
    text = address
    protocol, colon, _ = text.partition(":")
    if colon and protocol.upper() in ("OS", "TCP"):
        raise LocalProtocolError(
            f"connect: address is {quoted(address)}; write DIRECT={text}, or only {text[len(protocol) + 1 :]}"
        )
    if "=" not in text:
        text = f"DIRECT={'OS' if read_address(text) is None else 'TCP'}:{text}"
    try:
        name = parse_format_name(f"{text}\\private$\\any")
    except MQError as error:
        raise LocalProtocolError(f"connect: address is {quoted(address)}: {error}") from None
    if not isinstance(name, DirectFormatName) or name.protocol not in _PROTOCOLS or "\\" in text:
        raise LocalProtocolError(
            f"connect: address is {quoted(address)}; it has to be such as DIRECT=OS:BETA,"
            " DIRECT=TCP:192.0.2.1, BETA or 192.0.2.1"
        )
    return text


def _checked_hosts(hosts: object) -> dict[str, str]:
    if hosts is None:
        return {}
    if not isinstance(hosts, Mapping):
        raise LocalProtocolError(
            f"Sender: hosts is {kind_of(hosts)}; it has to map computer names to addresses"
        )
    for name, entry in hosts.items():
        if not isinstance(name, str) or not isinstance(entry, str):
            raise LocalProtocolError("Sender: hosts has to map computer names to addresses, both of type str")
        try:
            parse_host_entry(entry)
        except ValueError as error:
            raise LocalProtocolError(f"Sender: hosts, {quoted(name)}: {error}") from None
    return dict(hosts)


async def _awaited(work: Coroutine[Any, Any, T]) -> T:
    """Await work that awaits Deferreds: in a task of asyncio, through a future of its loop."""
    try:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
    except RuntimeError:
        return await work
    if task is None:
        return await work
    return await Deferred.fromCoroutine(work).asFuture(loop)
