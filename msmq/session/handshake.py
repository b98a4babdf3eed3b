"""Session handshake, from both sides. [MS-MQQB] 3.1.1.7.1, 3.1.5.2, 3.1.5.3, 3.1.5.4 and 3.1.5.10."""

from __future__ import annotations

from typing import Final

from msmq.errors import RemoteProtocolError
from msmq.moment import Moment
from msmq.session.effects import ConnectionProgress, Opened, Progress, Transmit
from msmq.session.state import SessionCore
from msmq.session.timers import Timer
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.wire.guid import NULL_GUID, braced

LEAST_ACK_WAIT = 20.0
GREATEST_ACK_WAIT = 120.0
"""The range of AckTimeout in seconds ([MS-MQQB] 2.2.2.1)."""


_CLIENT_GUID: Final = 20
_SERVER_GUID: Final = 36
"""Offset of ServerGuid in an EstablishConnection packet ([MS-MQQB] 2.2.3)."""


def start_accepted(core: SessionCore, now: Moment) -> None:
    """A connection was accepted; its initiator sends the first packet. [MS-MQQB] 3.1.5.10."""
    core.timers.start(Timer.INITIALIZATION, core.settings.session_initialization, now)


def send_establish_connection(core: SessionCore, now: Moment) -> None:
    """State the local identifier to the dialled queue manager. [MS-MQQB] 3.1.5.2.3."""
    core.is_direct = core.expected_identifier is None
    request = EstablishConnection(
        client_guid=core.identifier,
        server_guid=core.expected_identifier or NULL_GUID,
        time_stamp=now.milliseconds,
        is_without_ping=not core.was_pinged,
        is_server=core.settings.is_server,
    )
    core.effects.append(Transmit((request.to_bytes(),)))
    core.counts.sent.establish_connection += 1
    core.effects.append(Progress(ConnectionProgress.IN_PROCESS))
    core.timers.start(Timer.INITIALIZATION, core.settings.session_initialization, now)


def answer_establish_connection(core: SessionCore, request: EstablishConnection, now: Moment) -> bool:
    """Answer an initiator; returns whether it is accepted. [MS-MQQB] 3.1.5.3.1.

    A null ServerGuid accepts any answering queue manager (reading 11); any other has to be the local one.
    The response is sent in both cases, so that a refused initiator learns the reason (reading 12).
    """
    core.remote_identifier = request.client_guid
    core.is_direct = request.server_guid == NULL_GUID
    is_accepted = request.server_guid in (NULL_GUID, core.identifier) and core.accepts()
    answer = EstablishConnection(
        client_guid=request.client_guid,
        server_guid=core.identifier,
        time_stamp=request.time_stamp,
        is_without_ping=request.is_without_ping,
        is_server=core.settings.is_server,
        is_refused=not is_accepted,
        is_response=True,
    )
    core.effects.append(Transmit((answer.to_bytes(),)))
    core.counts.sent.establish_connection += 1
    if is_accepted:
        core.timers.start(Timer.INITIALIZATION, core.settings.session_initialization, now)
    return is_accepted


def wrong_addressee(core: SessionCore, request: EstablishConnection) -> RemoteProtocolError | None:
    """Why a request was refused, if that was for its ServerGuid; C{None} if a limit was the reason."""
    if request.server_guid in (NULL_GUID, core.identifier):
        return None
    rule = f"{braced(request.server_guid)} is not this queue manager, {braced(core.identifier)}"
    return RemoteProtocolError(
        "[MS-MQQB] 3.1.5.3.1", "EstablishConnectionHeader", "ServerGuid", _SERVER_GUID, rule
    )


def wrong_answer(core: SessionCore, response: EstablishConnection) -> RemoteProtocolError | None:
    """Why a response is not to our request, or not from its addressee; C{None} if it is. [MS-MQQB] 3.1.5.3.2.

    For a direct format name any queue manager may answer, but with an identifier (reading 13).
    """
    expected = core.expected_identifier
    if response.client_guid != core.identifier:
        rule = f"{braced(response.client_guid)} is not this queue manager, {braced(core.identifier)}"
        return _wrong_answer("ClientGuid", _CLIENT_GUID, rule)
    if response.server_guid == NULL_GUID:
        return _wrong_answer("ServerGuid", _SERVER_GUID, "the queue manager that answers has no identifier")
    if expected is not None and response.server_guid != expected:
        rule = f"{braced(response.server_guid)} answered in place of {braced(expected)}"
        return _wrong_answer("ServerGuid", _SERVER_GUID, rule)
    return None


def _wrong_answer(field: str, offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError("[MS-MQQB] 3.1.5.3.2", "EstablishConnectionHeader", field, offset, rule)


def send_connection_parameters(core: SessionCore, response: EstablishConnection, now: Moment) -> None:
    """The peer accepted; propose the acknowledgement parameters. [MS-MQQB] 3.1.5.3.2."""
    core.remote_identifier = response.server_guid
    round_trip = ((now.milliseconds - response.time_stamp) & 0xFFFFFFFF) / 1000
    core.recoverable_ack_send_timeout = _limited(
        8 * round_trip, core.settings.recoverable_ack_minimum, core.settings.recoverable_ack_maximum
    )
    request = ConnectionParameters(
        recoverable_ack_timeout=round(core.recoverable_ack_send_timeout * 1000),
        ack_timeout=round(core.ack_wait_timeout * 1000),
        window_size=core.window_size,
    )
    core.effects.append(Transmit((request.to_bytes(),)))
    core.counts.sent.connection_parameters += 1
    core.effects.append(Progress(ConnectionProgress.ESTABLISH_PACKET_RECEIVED))


def answer_connection_parameters(core: SessionCore, request: ConnectionParameters, now: Moment) -> None:
    """Take the initiator's times, send the local window. [MS-MQQB] 3.1.5.4.1.

    Both times are echoed unchanged, but a value outside its range is not used for a timer (reading 14).
    """
    core.received_window_size = request.window_size or 1
    core.ack_wait_timeout = _limited(request.ack_timeout / 1000, LEAST_ACK_WAIT, GREATEST_ACK_WAIT)
    core.recoverable_ack_send_timeout = _limited(
        request.recoverable_ack_timeout / 1000,
        core.settings.recoverable_ack_minimum,
        core.settings.recoverable_ack_maximum,
    )
    answer = ConnectionParameters(
        recoverable_ack_timeout=request.recoverable_ack_timeout,
        ack_timeout=request.ack_timeout,
        window_size=core.window_size,
    )
    core.effects.append(Transmit((answer.to_bytes(),)))
    core.counts.sent.connection_parameters += 1
    _open(core, now)


def take_connection_parameters(core: SessionCore, response: ConnectionParameters, now: Moment) -> None:
    """The peer's window; the session is open. [MS-MQQB] 3.1.5.4.2."""
    core.received_window_size = response.window_size or 1
    core.effects.append(Progress(ConnectionProgress.ESTABLISHED))
    _open(core, now)


def _open(core: SessionCore, now: Moment) -> None:
    core.timers.stop(Timer.INITIALIZATION)
    core.timers.start(Timer.CLEANUP, core.settings.session_cleanup, now)
    assert core.remote_identifier is not None, "both handshakes learn it before they open"
    core.was_open = True
    core.effects.append(Opened(core.remote_identifier))


def _limited(value: float, least: float, greatest: float) -> float:
    return min(max(value, least), greatest)
