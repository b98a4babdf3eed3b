"""A session of [MS-MQQB] as a Twisted protocol: the class that custom brokers subclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar
from uuid import UUID, uuid4

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import (
    IPushProducer,
    ISSLTransport,
    ITransport,
)
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.deadline_timer import DeadlineTimer
from msmq.errors import RemoteProtocolError
from msmq.interfaces.session import ISession
from msmq.moment import Moment
from msmq.net.hooks import call_hook
from msmq.net.pending_effects import PendingEffects
from msmq.net.session_hooks import SessionHooks
from msmq.net.session_owner import SessionOwner
from msmq.net.transports import (
    READ_SIZE,
    ReadingPauses,
    TransportWriter,
    abort_transport,
    address_text,
    close_transport,
    prepare_transport,
)
from msmq.session.connection_limits import ConnectionRefusal
from msmq.session.effects import (
    Abort,
    Acknowledged,
    Closed,
    CloseReason,
    ConnectionProgress,
    Deliver,
    Disconnect,
    Effect,
    Opened,
    Progress,
    Reconnect,
    Transmit,
    WindowOpened,
)
from msmq.session.session import Session
from msmq.session.state import SessionState
from msmq.session.statistics import SessionStatistics
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.user_message_view import UserMessageView, measure_user_message
from msmq.wire.framer import Frame, StreamFramer

_OVER = (SessionState.CLOSED, SessionState.WAITING_RECONNECT)


@implementer(ISession, IPushProducer)
class SessionProtocol(SessionHooks):
    """One session over one connection.

    Subclass it, and name the subclass in C{SessionFactory.protocol}, to build a broker, a proxy, a
    recorder or a test double.
    The hooks are the methods of L{SessionHooks}: C{connection_accepted}, C{may_open}, C{session_opened},
    C{messages_arriving}, C{message_arriving}, C{message_sent}, C{messages_acknowledged},
    C{message_acknowledged}, C{room_for_messages}, C{message_rejected} and C{session_closed}.
    They are plain calls, made after the session has changed; an exception in one closes this session
    and is logged.
    Only C{messages_arriving} and C{message_arriving} may be coroutines or return a Deferred; from any other
    hook that is an error.

    @ivar session_identifier: distinguishes it from every other session, also across restarts.
    @ivar remote_address: the textual address of the peer, once there is a connection.
    @ivar dialled_for: what its connector was made for; C{None} for an accepted session.
    @ivar opened: when the handshake was complete,  seconds since 1970-01-01 UTC; C{None} before that.
    @ivar last_heard: when anything was received from the peer, likewise; C{last_sent} when anything was sent.
    @ivar received: bytes that the peer has sent.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, factory: SessionOwner[SessionProtocol], session: Session) -> None:
        self.factory = factory
        self._factory = factory
        self.session = session
        self.session_identifier = uuid4()
        self.remote_address = ""
        self.dialled_for: object = None
        self._redial: Callable[[], object] | None = None
        self.opened: float | None = None
        self.last_heard: float | None = None
        self.last_sent: float | None = None
        self._writer = TransportWriter()
        self.received = 0
        self._framer = StreamFramer(measure_user_message, internal_only=True)
        self._in_hand = 0
        self._held = 0
        self._pauses = ReadingPauses()
        self._effects = PendingEffects()
        self._is_performing = False
        self._waits_for: Deferred[None] | None = None
        self._is_write_paused = False
        self._has_ended = False
        self._owes_loss = False
        self._is_connected = False
        self._timer = DeadlineTimer(factory.reactor, factory.clock, self._expire)
        self._tells_each_arrival = self._overrides("message_arriving")
        self._tells_each_sent = self._overrides("message_sent")
        self._tells_each_acknowledged = self._overrides("message_acknowledged")

    def _overrides(self, hook: str) -> bool:
        """Whether a subclass overrides a hook for every single message, which costs a call each."""
        return getattr(type(self), hook) is not getattr(SessionProtocol, hook)

    # Called by its factory

    def decide_opening(self) -> bool:
        """Whether C{may_open} accepts the session; an exception in it refuses."""
        try:
            return call_hook(self.may_open)
        except Exception:
            self._log_failure(Failure())
            return False

    # Called by brokers

    @property
    def is_initiator(self) -> bool:
        """Whether this side opened the connection."""
        return self.session.is_initiator

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return ISSLTransport.providedBy(self.transport)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete and the session has not ended."""
        return self.session.state is SessionState.OPEN

    @property
    def state(self) -> SessionState:
        """SessionState. [MS-MQQB] 3.1.1.3.1."""
        return self.session.state

    @property
    def statistics(self) -> SessionStatistics:
        """The packets sent and received so far."""
        return self.session.statistics

    @property
    def remote_identifier(self) -> UUID | None:
        """The peer's queue manager identifier, once it has stated it."""
        return self.session.remote_identifier

    @property
    def capacity(self) -> int:
        """The number of messages that L{send} accepts now: the free part of the window, 0 while the peer
        reads slowly.
        """
        return 0 if self._is_write_paused else self.session.capacity

    def send(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send these messages, in this order.

        @raise msmq.errors.LocalProtocolError: more than L{capacity}.
        """
        if not self.session.awaits_acknowledgement:
            self._writer.observe()
        self._perform(self.session.send(messages, self._now()))
        if self._tells_each_sent:
            for message in messages:
                self._guarded(self.message_sent, message)

    def pause(self) -> None:
        """An outgoing queue of the session is paused. [MS-MQQB] 3.1.7.13."""
        self._perform(self.session.pause(self._now()))

    def resume(self) -> None:
        """An outgoing queue of the session is resumed. [MS-MQQB] 3.1.7.14."""
        self.session.resume()

    def persisted(self, through: int) -> None:
        """The broker has stored the recoverable messages that arrived here, up to this number.

        @raise msmq.errors.LocalProtocolError: that number has not arrived.
        """
        self._perform(self.session.persisted(through, self._now()))

    def report_rejection(self, message: UserMessageView, reason: str) -> None:
        """Call C{message_rejected}; an exception in it ends only this session."""
        self._guarded(self.message_rejected, message, reason)

    def close(self, reason: CloseReason = CloseReason.STOPPED) -> None:
        """End the session and its connection, or stop waiting to dial again; a hook at work keeps neither."""
        self._perform(self._end(reason))
        self._perform_pending(Disconnect())

    def cut(self, reason: CloseReason) -> None:
        """End the session, and its connection at once: what is still to be written is dropped."""
        self.close(reason)
        self._perform_one(Abort())

    def attempt_failed(self, progress: ConnectionProgress) -> None:
        """The connection for this protocol could not be established."""
        self._perform(self.session.connect_failed(progress, self._now()))

    # Called by Twisted

    def connectionMade(self) -> None:
        """Begin the handshake, or wait for the peer to begin it."""
        transport = self._connected_transport()
        self.remote_address = address_text(transport.getPeer())
        prepare_transport(transport, self)
        self._is_connected = True
        self._factory.connection_made(self)
        if self.is_initiator:
            self._perform(self.session.connected(self._now()))
        else:
            # In this order the hook can refuse the connection.
            self._perform(self.session.accepted(self._now()))
            self._guarded(self.connection_accepted)

    def dataReceived(self, data: bytes) -> None:
        """Split the bytes into packets and pass them to the session."""
        now = self._now()
        if self.session.state in _OVER:
            return
        self.last_heard = now.wall
        framer = self._framer
        self.received += len(data)
        self._factory.counts.bytes_received += len(data)
        arrived = framer.buffered + len(data)
        frames = framer.feed(data)
        arrived -= framer.buffered
        if len(data) >= READ_SIZE:
            self._factory.large_reads.filled(self.transport, len(data), len(frames))
        effects = self._arrive(frames, now)
        if framer.internal_only and framer.user_packet_waiting:
            if self.session.state is SessionState.OPEN:
                framer.internal_only = False
                waiting = framer.buffered
                frames = framer.feed(b"")
                arrived += waiting - framer.buffered
                effects += self._arrive(frames, now)
            else:
                effects += self.session.user_message_before_open(now)
        if framer.error is not None:
            effects += self.session.malformed(framer.error, now)
        self._perform(effects)
        self._in_hand += arrived
        self._account()

    def _arrive(self, frames: Sequence[Frame], now: Moment) -> list[Effect]:
        """Pass packets to the session; while a hook is at work they wait."""
        self.session.arrive(frames, self._framer.buffered)
        return self.session.take_portion(now) if self._waits_for is None else []

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Handling a Network Disconnect: the connection is closed, by either side. [MS-MQQB] 3.1.7.3."""
        self._is_connected = False
        self._factory.large_reads.end(self.transport)
        self._perform(self.session.connection_lost(self._now()))
        self._account()
        self._factory.connection_lost(self)
        self._owes_loss = True
        self._perform(())

    def pauseProducing(self) -> None:
        """The transport's buffer is full: the peer reads more slowly than this side writes."""
        self._is_write_paused = True
        self.session.congested()

    def resumeProducing(self) -> None:
        """The transport's buffer has been written."""
        if self._is_write_paused:
            self._is_write_paused = False
            self._perform(self.session.congestion_ended(self._now()))
            self._guarded(self._report_capacity)

    def stopProducing(self) -> None:
        """The connection is closing; L{connectionLost} follows."""

    # Called by ReceiveMemory

    @property
    def is_suspended(self) -> bool:
        """Whether a hook is still processing messages."""
        return self._waits_for is not None

    def stop_reading(self) -> None:
        """The receive memory is exhausted: stop reading, and advertise a window of 1."""
        self._factory.large_reads.end(self.transport)
        self._pause_reading("memory")
        self._perform(self.session.narrow(self._now()))

    def go_on_reading(self) -> None:
        """Receive memory is available again."""
        self._end_pause("memory")

    def end_stalled(self) -> None:
        """Close the session: its incomplete packet keeps memory from others."""
        self.close(CloseReason.STALLED)
        self._account()

    # Private

    def _account(self) -> None:
        """Report the bytes of received packets that are incomplete or not processed yet."""
        if self.session.state in _OVER:
            # The rest of the stream is meaningless.
            self._framer = StreamFramer(measure_user_message, internal_only=True)
            self._in_hand = 0
        elif self._waits_for is None:
            self._in_hand = 0
        held = self._framer.buffered + self._in_hand
        if held != self._held:
            self._held = held
            self._factory.receive_memory.changed(self, held)

    def _now(self) -> Moment:
        return self._factory.clock.now()

    def _connected_transport(self) -> ITransport:
        assert self.transport is not None, "there is a connection"
        return self.transport

    def _report_capacity(self) -> None:
        if self.is_open:
            call_hook(self.room_for_messages)

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Perform effects in order, including those that are caused by other effects.

        While a hook is at work only acknowledgements and messages are sent, and everything else waits; an end
        of the session is reported to it.
        """
        added = len(self._effects)
        self._effects.extend(effects)
        if self._is_performing:
            return
        self._is_performing = True
        try:
            if self._waits_for is not None:
                self._perform_meanwhile(added)
            while self._waits_for is None:
                if self._effects:
                    self._perform_one(self._effects.popleft())
                elif self.session.has_arrivals:
                    self._effects.extend(self.session.take_portion(self._now()))
                else:
                    break
        finally:
            self._is_performing = False
        deadline = self.session.deadline
        if deadline is None and not self._is_connected and self.session.state in _OVER:
            self._timer.stop()
        else:
            self._timer.set(deadline)
        if self._owes_loss and self._waits_for is None:
            # It follows session_closed, which waits for a hook at work.
            self._owes_loss = False
            if self._factory.broker is not None:
                self._guarded(self._factory.broker.connection_lost, self)

    def _perform_meanwhile(self, added: int) -> None:
        """A hook is at work: send the packets of the effects from this index on, and report an end to it."""
        ends = self._effects.ends(added)
        if self._effects.move_packets_first(added):
            while self._effects and isinstance(self._effects[0], Transmit):
                self._perform_one(self._effects.popleft())
        for end in ends:
            self._guarded(self.session_ending, end.reason)

    def _perform_pending(self, effect: Effect) -> None:
        """Perform an effect that waits for a hook at work."""
        if self._waits_for is not None and effect in self._effects:
            self._effects.remove(effect)
            self._perform_one(effect)

    def _perform_one(self, effect: Effect) -> None:
        match effect:
            case Transmit(chunks, is_awaited):
                if self._is_connected:
                    self._write(chunks, is_awaited)
            case Deliver(messages, first_recoverable):
                self._guarded(self._deliver, messages, first_recoverable)
            case Acknowledged(messages):
                self._guarded(self.messages_acknowledged, messages)
                if self._tells_each_acknowledged:
                    for message in messages:
                        self._guarded(self.message_acknowledged, message)
            case WindowOpened():
                self._guarded(self._report_capacity)
            case Opened():
                self.opened = self._now().wall
                self._factory.handshake_done(self)
                self._guarded(self.session_opened)
            case Progress(status):
                if self._factory.broker is not None:
                    self._guarded(self._factory.broker.session_progress, self, status)
            case Disconnect():
                close_transport(self.transport)
            case Abort():
                abort_transport(self.transport)
            case Closed(reason, unacknowledged, error):
                self._report_closed(reason, error)
                self._guarded(self.session_closed, reason, unacknowledged, error)
            case Reconnect():
                self._guarded(self._factory.reconnect, self)

    def _report_closed(self, reason: CloseReason, error: RemoteProtocolError | None) -> None:
        """Count a refusal by either side, and log the end."""
        if reason is CloseReason.REFUSED and error is not None:
            self._factory.note_refusal(ConnectionRefusal.ADDRESSEE, self.remote_address)
        elif reason is CloseReason.REFUSED_BY_PEER:
            self._factory.note_refusal(ConnectionRefusal.BY_PEER, self.remote_address)
        if (others := self._factory.peer_line("closed")) is not None:
            self.log.info(
                "session with {address} closed: {reason}{detail}{others}",
                address=self.remote_address or "an unconnected peer",
                reason=reason.value,
                detail=f" ({error})" if error is not None else "",
                others=others,
            )

    def redial_with(self, dial: Callable[[], object] | None) -> None:
        """Dial with this when the retry timer expires and no broker decides on that; C{None}: do not dial."""
        self._redial = dial

    def redial(self) -> None:
        """Dial again, once; no effect on an accepted session."""
        dial, self._redial = self._redial, None
        if dial is not None:
            dial()

    def _write(self, chunks: Sequence[bytes], is_awaited: bool) -> None:
        """Write to the connection; acknowledgements that follow one another are one write."""
        if is_awaited:
            chunks = self._effects.with_following(chunks)
        now = self._now()
        transport = self._connected_transport()
        self._factory.counts.bytes_sent += self._writer.write(
            transport, chunks, now.monotonic, is_awaited=is_awaited
        )
        self.last_sent = now.wall

    def _deliver(self, messages: Sequence[UserMessageView], first_recoverable: int) -> None:
        waiting = len(self._effects)
        self._has_ended = False
        waits_for = self._call_arrival_hooks(messages, first_recoverable, each=self._tells_each_arrival)
        if waits_for is not None and (waits_for.paused or not waits_for.called):
            self._suspend(waits_for)
            if self._has_ended:
                # The hook has closed the session before it began to wait.
                self._perform_meanwhile(0)
                self._perform_pending(Disconnect())
            else:
                self._perform_meanwhile(waiting)
        elif waits_for is not None:
            waits_for.addErrback(self._fail)

    def _suspend(self, waits_for: Deferred[None]) -> None:
        """Suspend reading and events until the hook is done."""
        self._waits_for = waits_for
        self._pause_reading("hook")
        waits_for.addErrback(self._fail)
        waits_for.addBoth(self._go_on)

    def _pause_reading(self, reason: str) -> None:
        """Read nothing, and acknowledge at intervals, so that the peer waits."""
        self._pauses.add(reason, self.transport)
        self.session.begin_processing(self._now())

    def _end_pause(self, reason: str) -> None:
        self._pauses.end(reason, self.transport, is_over=self.session.state in _OVER)
        if not self._pauses.is_paused:
            self.session.end_processing()

    def _go_on(self, _: object) -> None:
        self._waits_for = None
        self._end_pause("hook")
        self._perform(())
        self._account()

    def _fail(self, failure: Failure) -> None:
        self._effects.extend(self._effects_of(failure))

    def _effects_of(self, failure: Failure) -> list[Effect]:
        """Log the failure of a hook, and end the session."""
        # A hook may end its work in session_ending by cancelling it.
        if not (failure.check(CancelledError) and self.session.state in _OVER):
            self._log_failure(failure)
        return self._end(CloseReason.INTERNAL_ERROR)

    def _log_failure(self, failure: Failure) -> None:
        self.log.failure("a hook of the session with {address} failed", failure, address=self.remote_address)

    def _end(self, reason: CloseReason) -> list[Effect]:
        """End the session from this side, and discard effects that were not performed.

        Otherwise messages for which a hook has closed the session would be acknowledged.
        """
        if self.session.state not in _OVER:
            self._effects.discard_unperformed()
            self._has_ended = True
        return self.session.close(reason, self._now())

    def _guarded(self, hook: Callable[..., object], *args: object) -> None:
        """Call a hook; an exception in it ends only this session."""
        try:
            call_hook(hook, *args)
        except Exception:
            effects = self._effects_of(Failure())
            if self._is_performing:
                self._effects.extend(effects)
            else:
                self._perform(effects)
                self._perform_pending(Disconnect())

    def _expire(self, now: Moment) -> None:
        if self.session.awaits_acknowledgement and self._writer.has_progressed(self.transport):
            self.session.receives()
        self._perform(self.session.expire(now))
        self._perform_pending(Abort())
