"""Base class of brokers: receivers of messages with a queue manager of their own."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import attrs
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.components import Componentized
from twisted.python.reflect import qual

from msmq.broker.arguments import (
    MOST_BACKLOG,
    MOST_CONCURRENT,
    check_number,
    check_queues,
    check_store,
    check_text,
)
from msmq.broker.opened_store import OpenedStore, owner_of
from msmq.broker.outcomes import Outcome, later
from msmq.broker.program import BrokerProgram
from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.manager.queue_manager import IQueueManager
from msmq.interfaces.manager.queue_properties import QueueProperties
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.interfaces.session import ISession
from msmq.interfaces.storage import IMessageStore
from msmq.net.clock import SystemClock
from msmq.net.reactors import running_reactor
from msmq.quoting import kind_of
from msmq.service.configuration import Overrides, load
from msmq.service.data_directory.identity import load_identity
from msmq.service.process.server_run import ServerRun
from msmq.service.settings import Configuration
from msmq.service.twistd_service import ExitStatus, stop_once
from msmq.session.effects import CloseReason
from msmq.storage.memory import MemoryMessageStore

DEFAULT_BACKLOG: Final = 10_000
"""Messages that may wait before the sessions of a broker read no more."""

LONGEST_RETRY: Final = 60.0
"""Seconds after which a message that failed is processed again, at the latest."""


class Broker(Service):
    """A receiver of messages: subclass it, and write L{message_received}.

    It is a Twisted service with a queue manager of its own: peers send to it as to any other, and it does all
    that the documents ask of a receiver. A message that has arrived is stored, acknowledged to its sender,
    and passed to L{message_received}; it is removed when that has accepted it and this is stored. A message
    in process when the process ends is passed again by the next one, with the same C{identifier}.

    On asyncio's reactor the coroutines are tasks of its loop.

    @param queues: the names of the queues, as C{["orders"]}, or with properties, as C{{"orders":
        {"transactional": True}}}; they are created if they do not exist. C{None} for every private queue: a
        queue is created, transactional or not, by the first message for it, while there are fewer than 1,000.
    @param concurrency: how many messages are processed at a time, 1 to 1,000. L{lane} says which are
        processed one after the other.
    @param store: the path of a data directory, or an L{IMessageStore}. C{None} keeps everything in memory,
        messages that were acknowledged to their senders included.
    @param backlog: how many messages may wait. Beyond that nothing is read from the peers until half of them
        are processed; what was read before is stored.
    @param name: ComputerName; by default that of the host.
    @param address: the IP address at which it listens; by default 127.0.0.1.
    @param configuration: everything else, as L{load<msmq.service.configuration.loading.load>} reads it; its
        data directory, name and addresses apply then.
    @param reactor: by default the global one.
    @raise LocalProtocolError: an argument cannot be used; the error names it.
    @ivar started: fires when it listens, or with the reason why it cannot start; each start makes a new one.
    @ivar lost: fires with the error when a broker whose C{configuration} has a standby has lost its store to
        another server, when it has stopped for that; each start makes a new one.
    """

    # An application may have several, and the names of its services are unique.
    name: str | None = None
    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        *,
        queues: Iterable[str] | Mapping[str, QueueProperties] | None = None,
        concurrency: int = 1,
        store: str | PathLike[str] | IMessageStore | None = None,
        backlog: int = DEFAULT_BACKLOG,
        name: str | None = None,
        address: str | None = None,
        configuration: Configuration | None = None,
        reactor: IReactorTime | None = None,
    ) -> None:
        owner = type(self).__name__
        if type(self).message_received is Broker.message_received:
            raise LocalProtocolError(
                f"{owner} has no message_received: write"
                " async def message_received(self, message: ReceivedMessage) -> Outcome"
            )
        self._queues = check_queues(owner, queues)
        self._concurrency = check_number(owner, "concurrency", concurrency, MOST_CONCURRENT)
        self._store = check_store(owner, store)
        self._backlog = check_number(owner, "backlog", backlog, MOST_BACKLOG)
        self._computer_name = check_text(owner, "name", name)
        self._address = check_text(owner, "address", address)
        if configuration is not None and not isinstance(configuration, Configuration):
            raise LocalProtocolError(
                f"{owner}: configuration is {kind_of(configuration)}; it has to be a Configuration, as load()"
                " returns it"
            )
        self._configuration = configuration
        self._check_configured(owner)
        self._reactor = reactor
        self._program: BrokerProgram | None = None
        self._is_paused = False
        self._twistd_exit: ExitStatus | None = None
        self._run: ServerRun | None = None
        self.started: Deferred[None] = Deferred()
        self.lost: Deferred[Exception] = Deferred()

    def _check_configured(self, owner: str) -> None:
        if self._configuration is None:
            return
        for argument, value in {"name": self._computer_name, "address": self._address}.items():
            if value is not None:
                raise LocalProtocolError(f"{owner}: {argument} is part of configuration; give one of the two")
        if isinstance(self._store, str):
            raise LocalProtocolError(
                f"{owner}: store is a path, and configuration has a data directory; give one of the two"
            )

    # To be overridden

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Process a message.

        @return: C{accept()}, C{reject(...)} or C{later(seconds)}. An error leads to L{message_failed}.
        """
        raise NotImplementedError

    async def message_failed(self, message: ReceivedMessage, error: Exception) -> Outcome:
        """Decide about a message for which L{message_received} has raised an error, which is logged.

        By default it is processed again after 1, 2, 4, ... seconds, at most a minute. C{message.attempt}
        counts, so a subclass can reject it after some attempts.
        """
        return later(min(LONGEST_RETRY, 2.0 ** min(message.attempt - 1, 10)))

    def lane(self, message: ReceivedMessage) -> Hashable | None:
        """The key of the messages that are processed one after the other; C{None} for no order.

        By default the queue of a message, and for a transactional one also the queue manager that sent it, as
        the protocol promises their order ([MS-MQQB] 3.1.1.1.1.8). It is called once for each message.
        """
        view = message.view
        return (message.queue, view.source_queue_manager) if view.is_transactional else message.queue

    async def session_opened(self, session: ISession) -> None:
        """A session with a peer has begun. An error closes it.

        It has to end, since L{session_closed} waits for it; a stop of the broker cancels it after 5 seconds.
        """

    async def session_closed(self, session: ISession, reason: CloseReason) -> None:
        """A session has ended; called after L{session_opened} of the session has ended."""

    # Called by applications

    @property
    def manager(self) -> IQueueManager:
        """The queue manager, for answers: C{await self.manager.send(destination, [Message(...)])}.

        @raise LocalProtocolError: the broker has not started.
        """
        program = self._program
        if program is None or program.manager is None:
            raise LocalProtocolError(f"{type(self).__name__} has not started, so it has no queue manager")
        return cast(IQueueManager, program.manager)

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses on which it listens: C{TCP 127.0.0.1:1801}; empty before it has started."""
        server = None if self._run is None else self._run.server
        return () if server is None else server.addresses

    def pause(self) -> None:
        """Process no further messages until L{resume}; they are accepted and stored, up to C{backlog}.

        Before the start, it starts like this.
        """
        self._is_paused = True
        if self._program is not None:
            self._program.pause()

    def resume(self) -> None:
        """Process messages again."""
        self._is_paused = False
        if self._program is not None:
            self._program.resume()

    def program(self, reactor: IReactorTime, clock: IClock) -> BrokerProgram:
        """This broker as the program of a L{Server} that something else runs, as C{twistd msmq --broker}.

        @raise LocalProtocolError: it has arguments that belong to the server, or C{__init__} of its class
            does not call that of this one.
        """
        self._check_created()
        for argument, value in {
            "store": self._store,
            "name": self._computer_name,
            "address": self._address,
            "configuration": self._configuration,
        }.items():
            if value is not None:
                raise LocalProtocolError(
                    f"{type(self).__name__}: {argument} belongs to the server that runs this broker; leave"
                    " it out here (twistd msmq has --data, --name, --address and --config)"
                )
        return self._make_program(reactor, clock)

    def _check_created(self) -> None:
        """Report a constructor that is forgotten by its name, and not by an attribute that is missing."""
        if "_store" not in vars(self):
            raise LocalProtocolError(f"{type(self).__name__}.__init__ does not call super().__init__(...)")

    def _make_program(self, reactor: IReactorTime, clock: IClock) -> BrokerProgram:
        self._program = BrokerProgram(self, self._queues, self._concurrency, self._backlog, reactor, clock)
        if self._is_paused:
            self._program.pause()
        return self._program

    # Called by Twisted

    def setServiceParent(self, parent: Any) -> None:
        """Make it a part of a collection of services, or of the application of C{twistd}.

        If it is the service of such an application itself, as the result of a plugin's C{makeService} is, the
        process ends with status 1 and a line on standard error when it cannot start. In a collection,
        C{started} alone has the reason.
        """
        if isinstance(parent, Componentized):
            self._twistd_exit = ExitStatus()
            atexit.register(self._twistd_exit.at_exit)
        Service.setServiceParent(self, parent)

    def startService(self) -> None:
        """Start; C{started} fires with the result.

        @raise SystemExit: C{twistd} has called it, it cannot start, and the reason is known at once.
        @raise LocalProtocolError: C{__init__} of its class does not call that of this one.
        """
        self._check_created()
        Service.startService(self)
        run = self._run = ServerRun(qual(type(self)), "msmq-broker-")
        self.lost = Deferred()
        self.started = ensureDeferred(run.start(self._begin(run)))
        if self._twistd_exit is None:
            return
        reactor: Any = running_reactor() if self._reactor is None else self._reactor
        if reactor.running:
            return
        if run.server is not None and run.server.refusal is not None:
            # Its ports close in the reactor, which does not run yet, and will not.
            if not self._twistd_exit.failed:
                self._report_refusal(run.server.refusal)
            run.server.remove_control_socket()
            run.remove_directory()
        if self._twistd_exit.failed:
            raise SystemExit(1)

    def stopService(self) -> Deferred[None]:
        """Let the messages in process and the coroutines for sessions finish, 5 seconds at most, and stop.

        Each caller gets a separate Deferred, and cancelling it ends the wait alone, not the stop.

        Called by the coroutine of a message, such as L{message_received}, the Deferred fires when the other
        messages in process have ended. The broker stops when this coroutine has ended and its outcome is
        stored; it has 5 seconds from then on, like the others before.

        @return: fires when it has stopped. It fails with L{LocalProtocolError} if something else runs the
            server of this broker, as C{twistd msmq --broker} does: that stops it.
        """
        if self._run is None and self._program is not None and self._program.is_prepared:
            owner = type(self).__name__
            return fail(
                LocalProtocolError(
                    f"{owner} is the program of a server that it has not started; stop that server, or end"
                    " the process, and the broker stops with it"
                )
            )
        Service.stopService(self)
        if self._program is not None:
            self._program.pause()
        self.started.addErrback(lambda _: None)
        if self._run is None or not self._run.is_ending:
            # A second time would end the wait for the store that the cancelled start closes.
            self.started.cancel()
        stopped = succeed(None) if self._run is None else self._run.stop()
        if stopped.called or self._program is None:
            return stopped
        return self._program.others_ended() or stopped

    async def _begin(self, run: ServerRun) -> None:
        reactor = running_reactor() if self._reactor is None else self._reactor
        # It brings a reactor, which an application chooses before.
        from msmq.service.server import Server

        try:
            configuration, store = await self._composed(run)
            program = self._make_program(reactor, SystemClock())
            server = Server(
                configuration,
                reactor,
                session_protocol=program.session_protocol,
                store=store,
                program=program,
            )
            run.begin(server)
            server.lost.addCallback(self._lost, reactor)
            await server.started
        except CancelledError:
            raise
        except BaseException as error:
            if self._twistd_exit is None or not self._twistd_exit.failed:
                self._report_refusal(error)
            if self._twistd_exit is not None and (core := cast(Any, reactor)).running:
                stop_once(core)
            raise

    def _report_refusal(self, error: BaseException) -> None:
        """Log why it cannot start; under C{twistd}, also print it."""
        broker, reason = qual(type(self)), " ".join(str(error).split())
        self.log.critical("{broker} cannot start: {error}", broker=broker, error=reason)
        if self._twistd_exit is not None:
            self._twistd_exit.fail(f"{broker} cannot start: {reason}", sys.__stderr__ or sys.stderr)

    def _lost(self, error: Exception, reactor: IReactorTime) -> None:
        """Another server has the store: stop, so that no peer takes this one for it."""
        broker, reason = qual(type(self)), " ".join(str(error).split())
        self.log.critical(
            "{broker} stops, since another server is active: {error}", broker=broker, error=reason
        )
        if self._twistd_exit is not None:
            line = f"{broker} ends, since another server is active: {reason}"
            self._twistd_exit.fail(line, sys.__stderr__ or sys.stderr)
            stop_once(cast(Any, reactor))
            return
        lost = self.lost
        self.stopService().addCallbacks(lambda _: lost.callback(error), lost.errback)

    async def _composed(self, run: ServerRun) -> tuple[Configuration, IMessageStore | None]:
        """The configuration of the queue manager, and its store if that is not configured."""
        store = self._store
        if self._configuration is not None:
            return self._configuration, cast("IMessageStore | None", store)
        if isinstance(store, str):
            return self._loaded(store, None), None
        scratch = run.make_directory()
        if store is not None:
            configuration = self._loaded(str(scratch), "memory")
            return configuration, await self._opened(store, scratch)
        self.log.warn(
            "{broker} has no store: messages that it has acknowledged, and what it knows of duplicates and"
            " streams, are lost when the process ends; store=PATH keeps them",
            broker=qual(type(self)),
        )
        configuration = self._loaded(str(scratch), "memory")
        limits = configuration.limits
        quota = min(limits.quota, limits.express_memory // 1024)
        return (
            attrs.evolve(configuration, limits=attrs.evolve(limits, quota=quota)),
            MemoryMessageStore(durable=True),
        )

    async def _opened(self, store: IMessageStore, data: Path) -> IMessageStore:
        """Open a store, whose owner becomes the identity in a data directory; the server closes it."""
        try:
            snapshot = await store.open()
            load_identity(data, lambda: owner_of(snapshot))
        except Exception:
            # No server has it yet. An open that is cancelled may have locked it.
            await store.close()
            raise
        return cast(IMessageStore, OpenedStore(store, snapshot))

    def _loaded(self, data: str, storage: str | None) -> Configuration:
        return load(
            None,
            Overrides(name=self._computer_name, data=data, address=self._address, storage=storage),
        )
