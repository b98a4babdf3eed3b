"""The state machine of a session: [MS-MQQB] 3.1.1.1.1.1 and 3.1.1.1.1.2 (figures 3 and 4).

One machine serves both sides; the first input of a session decides which half of it applies.
It is total: each input is handled in every state, and no input from a peer raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol

from automat import TypeMachine, TypeMachineBuilder

from msmq.errors import RemoteProtocolError
from msmq.machines import indexed
from msmq.moment import Moment
from msmq.session import acknowledgements as acknowledging
from msmq.session import closure as closing
from msmq.session import handshake as establishing
from msmq.session import inbound as receiving
from msmq.session.effects import Abort, CloseReason, ConnectionProgress, Progress, Reconnect
from msmq.session.state import SessionCore, SessionState
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.wire.framer import Frame

P = ParamSpec("P")


class SessionInputs(Protocol):
    """The inputs of a session's state machine."""

    def accepted(self, now: Moment) -> None:
        """A connection was accepted ([MS-MQQB] 3.1.5.10)."""

    def connected(self, now: Moment) -> None:
        """The dialled connection is established ([MS-MQQB] 3.1.5.2.3)."""

    def connect_failed(self, progress: ConnectionProgress, now: Moment) -> None:
        """The connection could not be established ([MS-MQQB] 3.1.5.2)."""

    def establish_connection_received(self, packet: EstablishConnection, now: Moment) -> None:
        """[MS-MQQB] 3.1.5.3."""

    def connection_parameters_received(self, packet: ConnectionParameters, now: Moment) -> None:
        """[MS-MQQB] 3.1.5.4."""

    def session_ack_received(self, packet: SessionAck, now: Moment) -> None:
        """[MS-MQQB] 3.1.5.5."""

    def user_messages_received(self, frames: Sequence[Frame], now: Moment) -> None:
        """One or more user messages, in order. [MS-MQQB] 3.1.5.8."""

    def initialization_expired(self, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.6."""

    def cleanup_expired(self, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.2."""

    def ack_wait_expired(self, duration: float, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.3."""

    def ack_send_expired(self, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.4."""

    def window_recovery_expired(self, now: Moment) -> None:
        """[MS-MQMQ] 2.2.20.4, note 15."""

    def retry_connect_expired(self, now: Moment) -> None:
        """[MS-MQQB] 3.1.6.1."""

    def linger_expired(self, now: Moment) -> None:
        """The peer of a closing connection does not read its last bytes."""

    def connection_lost(self, now: Moment) -> None:
        """The connection is lost."""

    def fail(self, reason: CloseReason, error: RemoteProtocolError | None, now: Moment) -> None:
        """Close, for this reason. [MS-MQQB] 3.1.5.9."""

    def messages_remain(self, now: Moment) -> None:
        """A dialled session has ended with pending messages ([MS-MQQB] 3.1.5.9)."""


_WAITING = (
    SessionState.WAITING_EC_MSG,
    SessionState.WAITING_ECR_MSG,
    SessionState.WAITING_CP_MSG,
    SessionState.WAITING_CPR_MSG,
)
_CONNECTED = (*_WAITING, SessionState.OPEN)
_OVER = (SessionState.CLOSED, SessionState.WAITING_RECONNECT)

_Body = Callable[Concatenate[SessionInputs, SessionCore, P], None]


def unexpected(packet: str, state: SessionState) -> RemoteProtocolError:
    """A packet came in a state that does not take it. [MS-MQQB] 3.1.5.3."""
    rule = f"{packet} packet received in state {state.value}"
    return RemoteProtocolError("[MS-MQQB] 3.1.5.3", packet, "BaseHeader", 0, rule)


def take_acknowledgement(inputs: SessionInputs, core: SessionCore, packet: SessionAck, now: Moment) -> None:
    """Process a SessionAck in OPEN; the session closes if the acknowledgement is invalid."""
    if not acknowledging.apply_session_header(core, packet.session_header, now):
        inputs.fail(CloseReason.BAD_ACKNOWLEDGEMENT, None, now)
    elif not acknowledging.is_in_step(core, packet.session_header):
        inputs.fail(CloseReason.COUNT_MISMATCH, None, now)


def take_messages(inputs: SessionInputs, core: SessionCore, frames: Sequence[Frame], now: Moment) -> None:
    """Process user messages in OPEN; the session closes if one of them requires that."""
    try:
        receiving.receive_portion(core, frames, now)
    except receiving.Rejected as rejected:
        inputs.fail(rejected.reason, rejected.error, now)


def _entering(target: SessionState, body: _Body[P]) -> _Body[P]:
    """The same action, after the core's state was updated."""

    @wraps(body)
    def transition(inputs: SessionInputs, core: SessionCore, /, *args: P.args, **kwargs: P.kwargs) -> None:
        core.state = target
        body(inputs, core, *args, **kwargs)

    return transition


def _build() -> TypeMachineBuilder[SessionInputs, SessionCore]:
    builder = TypeMachineBuilder(SessionInputs, SessionCore)
    states = {state: builder.state(state.value) for state in SessionState}
    first = SessionState.CLOSED
    assert next(iter(states)) is first, "a session begins without a connection"

    def on(
        happens: Callable[Concatenate[SessionInputs, P], None],
        *origins: SessionState,
        to: SessionState | None = None,
    ) -> Callable[[_Body[P]], _Body[P]]:
        """Define the action and target of an input in these states; without C{to} the state does not
        change.
        """

        def register(body: _Body[P]) -> _Body[P]:
            for origin in origins:
                target = to or origin
                states[origin].upon(happens).to(states[target])(_entering(target, body))
            return body

        return register

    @on(SessionInputs.accepted, SessionState.CLOSED, to=SessionState.WAITING_EC_MSG)
    def wait_for_initiator(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        establishing.start_accepted(core, now)

    @on(SessionInputs.connected, SessionState.CLOSED, to=SessionState.WAITING_ECR_MSG)
    def introduce_ourselves(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        establishing.send_establish_connection(core, now)

    @on(SessionInputs.connect_failed, SessionState.CLOSED)
    def record_failure(
        inputs: SessionInputs, core: SessionCore, progress: ConnectionProgress, now: Moment
    ) -> None:
        core.effects.append(Progress(progress))
        closing.close(core, CloseReason.CONNECT_FAILED, now, is_connected=False)
        _reconnect_if_needed(inputs, core, now)

    @on(
        SessionInputs.establish_connection_received,
        SessionState.WAITING_EC_MSG,
        to=SessionState.WAITING_CP_MSG,
    )
    def answer_initiator(
        inputs: SessionInputs, core: SessionCore, packet: EstablishConnection, now: Moment
    ) -> None:
        if not establishing.answer_establish_connection(core, packet, now):
            inputs.fail(CloseReason.REFUSED, establishing.wrong_addressee(core, packet), now)

    @on(
        SessionInputs.establish_connection_received,
        SessionState.WAITING_ECR_MSG,
        to=SessionState.WAITING_CPR_MSG,
    )
    def take_answer(
        inputs: SessionInputs, core: SessionCore, packet: EstablishConnection, now: Moment
    ) -> None:
        if packet.is_refused:
            core.effects.append(Progress(ConnectionProgress.CONNECTION_REFUSED))
            inputs.fail(CloseReason.REFUSED_BY_PEER, None, now)
        elif (wrong := establishing.wrong_answer(core, packet)) is not None:
            inputs.fail(CloseReason.WRONG_PEER, wrong, now)
        else:
            establishing.send_connection_parameters(core, packet, now)

    @on(SessionInputs.connection_parameters_received, SessionState.WAITING_CP_MSG, to=SessionState.OPEN)
    def answer_parameters(
        inputs: SessionInputs, core: SessionCore, packet: ConnectionParameters, now: Moment
    ) -> None:
        establishing.answer_connection_parameters(core, packet, now)

    @on(SessionInputs.connection_parameters_received, SessionState.WAITING_CPR_MSG, to=SessionState.OPEN)
    def take_parameters(
        inputs: SessionInputs, core: SessionCore, packet: ConnectionParameters, now: Moment
    ) -> None:
        if packet.is_refused:
            core.effects.append(Progress(ConnectionProgress.CONNECTION_REFUSED))
            inputs.fail(CloseReason.REFUSED_BY_PEER, None, now)
        else:
            establishing.take_connection_parameters(core, packet, now)

    on(SessionInputs.session_ack_received, SessionState.OPEN)(take_acknowledgement)
    on(SessionInputs.user_messages_received, SessionState.OPEN)(take_messages)

    def out_of_turn(packet: str) -> Callable[..., None]:
        def refuse(inputs: SessionInputs, core: SessionCore, *packet_and_now: Any, **_: Any) -> None:
            inputs.fail(CloseReason.OUT_OF_TURN, unexpected(packet, core.state), packet_and_now[-1])

        return refuse

    not_before_establish = (SessionState.WAITING_CP_MSG, SessionState.WAITING_CPR_MSG, SessionState.OPEN)
    on(SessionInputs.establish_connection_received, *not_before_establish)(out_of_turn("EstablishConnection"))
    not_before_parameters = (SessionState.WAITING_EC_MSG, SessionState.WAITING_ECR_MSG, SessionState.OPEN)
    on(SessionInputs.connection_parameters_received, *not_before_parameters)(
        out_of_turn("ConnectionParameters")
    )
    on(SessionInputs.session_ack_received, *_WAITING)(out_of_turn("SessionAck"))
    on(SessionInputs.user_messages_received, *_WAITING)(out_of_turn("UserMessage"))

    @on(SessionInputs.initialization_expired, *_WAITING)
    def give_up(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        inputs.fail(CloseReason.INITIALIZATION_TIMEOUT, None, now)

    @on(SessionInputs.cleanup_expired, SessionState.OPEN)
    def close_if_idle(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        if closing.is_idle(core, now):
            inputs.fail(CloseReason.IDLE, None, now)

    @on(SessionInputs.ack_wait_expired, SessionState.OPEN)
    def close_if_silent(inputs: SessionInputs, core: SessionCore, duration: float, now: Moment) -> None:
        if not acknowledging.ack_wait_expired(core, duration, now):
            inputs.fail(CloseReason.ACK_TIMEOUT, None, now)

    @on(SessionInputs.ack_send_expired, SessionState.OPEN)
    def acknowledge(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        acknowledging.ack_send_expired(core, now)

    @on(SessionInputs.window_recovery_expired, SessionState.OPEN)
    def widen_window(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        acknowledging.window_recovery_expired(core, now)

    @on(SessionInputs.retry_connect_expired, SessionState.WAITING_RECONNECT, to=SessionState.CLOSED)
    def dial_again(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        if core.has_backlog():
            core.effects.append(Reconnect())

    @on(SessionInputs.linger_expired, *_OVER)
    def cut(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        core.effects.append(Abort())

    @on(SessionInputs.fail, *_CONNECTED, to=SessionState.CLOSED)
    def close(
        inputs: SessionInputs,
        core: SessionCore,
        reason: CloseReason,
        error: RemoteProtocolError | None,
        now: Moment,
    ) -> None:
        closing.close(core, reason, now, error=error)
        _reconnect_if_needed(inputs, core, now)

    @on(SessionInputs.connection_lost, *_CONNECTED, to=SessionState.CLOSED)
    def lose(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        closing.close(core, CloseReason.CONNECTION_LOST, now, is_connected=False)
        _reconnect_if_needed(inputs, core, now)

    @on(SessionInputs.connection_lost, *_OVER)
    def stop_lingering(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        closing.stop_lingering(core)

    @on(SessionInputs.messages_remain, SessionState.CLOSED, to=SessionState.WAITING_RECONNECT)
    def wait_to_dial(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
        closing.wait_for_reconnect(core, now)

    @on(SessionInputs.fail, SessionState.WAITING_RECONNECT, to=SessionState.CLOSED)
    def stay_closed(
        inputs: SessionInputs,
        core: SessionCore,
        reason: CloseReason,
        error: RemoteProtocolError | None,
        now: Moment,
    ) -> None:
        closing.stop_waiting(core)

    def nothing(inputs: SessionInputs, core: SessionCore, *args: Any, **kwargs: Any) -> None:
        """Ignore an input that does not apply in this state."""

    on(SessionInputs.accepted, *_CONNECTED, SessionState.WAITING_RECONNECT)(nothing)
    on(SessionInputs.connected, *_CONNECTED, SessionState.WAITING_RECONNECT)(nothing)
    on(SessionInputs.connect_failed, *_CONNECTED, SessionState.WAITING_RECONNECT)(nothing)
    on(SessionInputs.establish_connection_received, *_OVER)(nothing)
    on(SessionInputs.connection_parameters_received, *_OVER)(nothing)
    on(SessionInputs.session_ack_received, *_OVER)(nothing)
    on(SessionInputs.user_messages_received, *_OVER)(nothing)
    on(SessionInputs.initialization_expired, SessionState.OPEN, *_OVER)(nothing)
    on(SessionInputs.cleanup_expired, *_WAITING, *_OVER)(nothing)
    on(SessionInputs.ack_wait_expired, *_WAITING, *_OVER)(nothing)
    on(SessionInputs.ack_send_expired, *_WAITING, *_OVER)(nothing)
    on(SessionInputs.window_recovery_expired, *_WAITING, *_OVER)(nothing)
    on(SessionInputs.retry_connect_expired, *_CONNECTED, SessionState.CLOSED)(nothing)
    on(SessionInputs.linger_expired, *_CONNECTED)(nothing)
    on(SessionInputs.fail, SessionState.CLOSED)(nothing)
    on(SessionInputs.messages_remain, *_CONNECTED, SessionState.WAITING_RECONNECT)(nothing)
    return builder


def _reconnect_if_needed(inputs: SessionInputs, core: SessionCore, now: Moment) -> None:
    """Only the side that dialled can dial again (reading 27)."""
    if core.is_initiator and (core.left_messages or core.has_backlog()):
        inputs.messages_remain(now)


MACHINE: TypeMachine[SessionInputs, SessionCore] = indexed(_build().build())
"""Makes the inputs of one session from its core."""
