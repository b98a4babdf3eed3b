"""Pure core of one session of [MS-MQQB], without socket and clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.moment import Moment
from msmq.session import acknowledgements as acknowledging
from msmq.session import outbound as sending
from msmq.session import window_recovery as pausing
from msmq.session.effects import CloseReason, ConnectionProgress, Effect
from msmq.session.inbound import portion_end
from msmq.session.machine import MACHINE, take_acknowledgement, take_messages, unexpected
from msmq.session.packet_counts import TrafficCounts
from msmq.session.state import SessionCore, SessionState, always, never
from msmq.session.statistics import SessionStatistics
from msmq.session.timers import Timer
from msmq.settings import SessionSettings
from msmq.structures.internal.classification import PacketKind, classify
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.wire.framer import INTERNAL_PACKET_SIZES, Frame

_INTERNAL = 0x08
_LARGEST_INTERNAL = max(INTERNAL_PACKET_SIZES)


class Session:
    """A protocol session, on either side. [MS-MQQB] 3.1.

    Bytes, calls and the time go in; each call answers with the effects to perform, in order.
    A session lasts as long as one connection; after L{msmq.session.effects.Reconnect} a new one is created.

    @param identifier: QueueManager.Identifier of the local queue manager.
    @param is_initiator: whether this side opened the connection.
    @param expected_identifier: the queue manager to reach; C{None} on a direct format name.
    @param was_pinged: whether this attempt began with a Ping Request.
    @param accepts: called when an initiator states its identifier: whether it may open a session.
    @param has_backlog: called when a dialled session ends: whether messages wait for this next hop.
    @param counts: where packets are counted; its own by default.
    @param retry_time: seconds from its end to L{msmq.session.effects.Reconnect}, if the peer acknowledges
        nothing; by default, and after an acknowledgement, what the settings say.
    """

    def __init__(
        self,
        identifier: UUID,
        settings: SessionSettings,
        *,
        is_initiator: bool,
        expected_identifier: UUID | None = None,
        was_pinged: bool = False,
        accepts: Callable[[], bool] | None = None,
        has_backlog: Callable[[], bool] | None = None,
        counts: TrafficCounts | None = None,
        retry_time: float | None = None,
    ) -> None:
        core = SessionCore(
            identifier=identifier,
            settings=settings,
            is_initiator=is_initiator,
            expected_identifier=expected_identifier,
            was_pinged=was_pinged,
            accepts=always if accepts is None else accepts,
            has_backlog=never if has_backlog is None else has_backlog,
            counts=TrafficCounts() if counts is None else counts,
            retry_time=retry_time,
        )
        self._core = core
        self._machine = MACHINE(core)
        self._arrived: list[Frame] = []
        self._next_arrival = 0
        self._malformed: RemoteProtocolError | None = None

    @property
    def is_initiator(self) -> bool:
        """Whether this side opened the connection."""
        return self._core.is_initiator

    @property
    def state(self) -> SessionState:
        """SessionState. [MS-MQQB] 3.1.1.3.1."""
        return self._core.state

    @property
    def remote_identifier(self) -> UUID | None:
        """RemoteQMGuid, once the peer has stated it."""
        return self._core.remote_identifier

    @property
    def was_open(self) -> bool:
        """Whether its handshake was ever complete."""
        return self._core.was_open

    @property
    def was_acknowledged(self) -> bool:
        """Whether the peer has acknowledged any message."""
        return self._core.was_acknowledged

    @property
    def reconnect_wait(self) -> float:
        """Seconds from its end to L{msmq.session.effects.Reconnect}, if messages wait."""
        return self._core.reconnect_wait

    @property
    def next_attempt(self) -> float | None:
        """The monotonic second at which the retry timer expires; C{None} while it does not run."""
        running = self._core.timers.running(Timer.RETRY_CONNECT)
        return None if running is None else running.deadline

    @property
    def statistics(self) -> SessionStatistics:
        """The packets sent and received so far."""
        core = self._core
        return SessionStatistics(
            sent=core.message_sent_count,
            received=core.message_received_count,
            recoverable_sent=core.recoverable_message_sent_count,
            recoverable_received=core.recoverable_message_received_count,
            unacknowledged=core.unacked_message_count,
            window=core.effective_window,
        )

    @property
    def capacity(self) -> int:
        """The number of messages that may be sent now; 0 unless the session is open."""
        if self._core.state is not SessionState.OPEN:
            return 0
        return self._core.room

    @property
    def awaits_acknowledgement(self) -> bool:
        """Whether the peer has to acknowledge messages. [MS-MQQB] 3.1.2.4."""
        return bool(self._core.in_flight)

    @property
    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} while no timer runs."""
        return self._core.timers.deadline

    def accepted(self, now: Moment) -> list[Effect]:
        """A connection was accepted for this session."""
        self._machine.accepted(now)
        return self._take_effects()

    def connected(self, now: Moment) -> list[Effect]:
        """The dialled connection of this session is established."""
        self._machine.connected(now)
        return self._take_effects()

    def expect(self, identifier: UUID) -> None:
        """Set the queue manager that the next connection has to reach; before L{connected}."""
        self._core.expected_identifier = identifier

    def pinged(self) -> None:
        """The peer was pinged before this connection, which the request says ([MS-MQQB] 2.2.3.1 SE)."""
        self._core.was_pinged = True

    def connect_failed(self, progress: ConnectionProgress, now: Moment) -> list[Effect]:
        """The dialled connection of this session could not be established."""
        self._machine.connect_failed(progress, now)
        return self._take_effects()

    def receive(self, frames: Sequence[Frame], now: Moment) -> list[Effect]:
        """Whole packets arrived together, in this order.

        Packets after one that closes the session are dropped.
        """
        self.arrive(frames)
        while self._arrived:
            self._take_portion(now)
        return self._take_effects()

    def arrive(self, frames: Sequence[Frame], unfinished: int = 0) -> None:
        """Bytes arrived, with these whole packets in this order; L{take_portion} processes them.

        A part of a packet is activity too (ReceivedAck, [MS-MQQB] 3.1.1.3.1): a peer that sends a large
        message over a slow connection cannot acknowledge anything before its end.
        It is message activity as well (SessionActive): the session would be closed as idle before that end.

        @param unfinished: the bytes of the packet after them, which is not complete.
        """
        self._core.received_ack = True
        if unfinished > _LARGEST_INTERNAL:
            self._core.session_active = True
        self._arrived.extend(frames)

    @property
    def has_arrivals(self) -> bool:
        """Whether packets have arrived that were not processed yet."""
        return bool(self._arrived)

    def take_portion(self, now: Moment) -> list[Effect]:
        """Process the packets that have arrived, up to the first user messages.

        A run of user messages up to the next acknowledgement is one step. What follows waits for the next
        call, so that no acknowledgement counts messages that were not delivered.
        """
        while self._arrived and not self._take_portion(now):
            pass
        return self._take_effects()

    def _take_portion(self, now: Moment) -> bool:
        """Process one internal packet or a portion of user messages; whether it was the second."""
        arrived, start, core = self._arrived, self._next_arrival, self._core
        packet = arrived[start][0]
        if packet[2] & _INTERNAL:
            self._passed(start + 1)
            self._receive_internal(packet, now)
            self._end_of_arrivals(now)
            return False
        portion = arrived[start : portion_end(core, start)]
        end = start
        for packet, session_header in portion:
            if packet[2] & _INTERNAL:
                break
            end += 1
            if session_header is not None:
                # It is compared with the messages that are counted by then.
                break
        if end < start + len(portion):
            portion = portion[: end - start]
        self._passed(end)
        # In OPEN the machine would do the same; looking it up costs as much as several messages.
        if core.state is SessionState.OPEN:
            take_messages(self._machine, core, portion, now)
        else:
            self._machine.user_messages_received(portion, now)
        self._end_of_arrivals(now)
        return True

    def _passed(self, end: int) -> None:
        """Drop the packets before this index, once all are processed."""
        self._next_arrival = end
        if end == len(self._arrived):
            self._arrived = []
            self._next_arrival = 0

    def _end_of_arrivals(self, now: Moment) -> None:
        """Once all packets are processed, the session closes if the bytes after them are not a packet."""
        if self._malformed is not None and not self._arrived:
            error, self._malformed = self._malformed, None
            self._machine.fail(CloseReason.MALFORMED_PACKET, error, now)

    def _receive_internal(self, packet: bytes, now: Moment) -> None:
        received = self._core.counts.received
        session_ack = SessionAck.of(packet)
        if session_ack is not None:
            received.session_ack += 1
            if self._core.state is SessionState.OPEN:
                take_acknowledgement(self._machine, self._core, session_ack, now)
            else:
                self._machine.session_ack_received(session_ack, now)
            return
        try:
            match classify(packet):
                case PacketKind.ESTABLISH_CONNECTION:
                    establish = EstablishConnection.from_bytes(packet)
                    received.establish_connection += 1
                    self._machine.establish_connection_received(establish, now)
                case PacketKind.CONNECTION_PARAMETERS:
                    parameters = ConnectionParameters.from_bytes(packet)
                    received.connection_parameters += 1
                    self._machine.connection_parameters_received(parameters, now)
                case _:
                    session_ack = SessionAck.from_bytes(packet)
                    received.session_ack += 1
                    self._machine.session_ack_received(session_ack, now)
        except RemoteProtocolError as error:
            self._machine.fail(CloseReason.MALFORMED_PACKET, error, now)

    def malformed(self, error: RemoteProtocolError, now: Moment) -> list[Effect]:
        """The byte stream cannot be split into packets any more ([MS-MQQB] 3.1.5.1.3).

        Packets that have arrived before are processed first.
        """
        self._malformed = error
        self._end_of_arrivals(now)
        return self._take_effects()

    def user_message_before_open(self, now: Moment) -> list[Effect]:
        """A user message has begun to arrive before the handshake is complete."""
        if self._core.state is not SessionState.OPEN:
            self._machine.fail(CloseReason.OUT_OF_TURN, unexpected("UserMessage", self._core.state), now)
        return self._take_effects()

    def send(self, messages: Sequence[OutgoingMessage], now: Moment) -> list[Effect]:
        """Send these messages in this order.

        @raise LocalProtocolError: they are more than L{capacity}.
        """
        if len(messages) > self.capacity:
            raise LocalProtocolError(f"{len(messages)} messages where {self.capacity} may be sent")
        if messages:
            sending.send(self._core, messages, now)
        return self._take_effects()

    def pause(self, now: Moment) -> list[Effect]:
        """An outgoing queue of the session is paused. [MS-MQQB] 3.1.7.13."""
        if self._core.state is SessionState.OPEN:
            pausing.pause(self._core, now)
        return self._take_effects()

    def resume(self) -> None:
        """An outgoing queue of the session is resumed. [MS-MQQB] 3.1.7.14."""
        pausing.resume(self._core)

    def narrow(self, now: Moment) -> list[Effect]:
        """[MS-MQMQ] note 15: the receive memory is exhausted: reduce the peer's window."""
        if self._core.state is SessionState.OPEN:
            pausing.narrow(self._core, now)
        return self._take_effects()

    def persisted(self, through: int, now: Moment) -> list[Effect]:
        """Recoverable messages of this session up to number C{through} are stored or permanently refused."""
        if self._core.state is SessionState.OPEN:
            acknowledging.persisted(self._core, through, now)
        return self._take_effects()

    def begin_processing(self, now: Moment) -> None:
        """The owner works on delivered messages, or has no memory for others, and reads none until
        L{end_processing}.

        The peer gets an acknowledgement every half AckWaitTimeout meanwhile.
        """
        if self._core.state is SessionState.OPEN:
            acknowledging.begin_processing(self._core, now)

    def end_processing(self) -> None:
        """The owner has processed what was delivered."""
        acknowledging.end_processing(self._core)

    def receives(self) -> None:
        """The peer is receiving messages that are not complete there, and cannot acknowledge them yet.

        That is activity (ReceivedAck, [MS-MQQB] 3.1.1.3.1): a message that takes longer than the Session Ack
        Wait Timer would otherwise be sent again without end.
        """
        self._core.received_ack = True

    def congested(self) -> None:
        """The connection is congested; acknowledgements wait until L{congestion_ended}."""
        self._core.is_congested = True

    def congestion_ended(self, now: Moment) -> list[Effect]:
        """The connection accepts data again."""
        self._core.is_congested = False
        if self._core.state is SessionState.OPEN:
            acknowledging.congestion_ended(self._core, now)
        return self._take_effects()

    def expire(self, now: Moment) -> list[Effect]:
        """Process the timers that have expired by now."""
        for timer, running in self._core.timers.take_expired(now):
            match timer:
                case Timer.INITIALIZATION:
                    self._machine.initialization_expired(now)
                case Timer.CLEANUP:
                    self._machine.cleanup_expired(now)
                case Timer.RETRY_CONNECT:
                    self._machine.retry_connect_expired(now)
                case Timer.ACK_WAIT:
                    self._machine.ack_wait_expired(running.duration, now)
                case Timer.ACK_LOOK:
                    # The owner has looked, since a timer has expired; see L{receives}.
                    pass
                case Timer.ACK_SEND:
                    self._machine.ack_send_expired(now)
                case Timer.PROCESSING:
                    acknowledging.processing_expired(self._core, now)
                case Timer.ACK_IDLE:
                    acknowledging.ack_idle_expired(self._core, now)
                case Timer.WINDOW_RECOVERY:
                    self._machine.window_recovery_expired(now)
                case Timer.WINDOW_GROWTH:
                    pausing.widen(self._core, now)
                case Timer.LINGER:
                    self._machine.linger_expired(now)
        return self._take_effects()

    def close(self, reason: CloseReason, now: Moment) -> list[Effect]:
        """End the session from this side ([MS-MQQB] 3.1.5.9).

        One that has ended stays as it is, except that it stops waiting to reconnect with C{STOPPED}: several
        batches of its messages may fail one after the other, and its own messages still wait.
        """
        if self.state is not SessionState.WAITING_RECONNECT or reason is CloseReason.STOPPED:
            self._machine.fail(reason, None, now)
        return self._take_effects()

    def connection_lost(self, now: Moment) -> list[Effect]:
        """The connection was closed, by either side."""
        self._machine.connection_lost(now)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects = self._core.effects
        self._core.effects = []
        return effects
