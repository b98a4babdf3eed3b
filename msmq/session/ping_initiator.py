"""Ping Requests to an acceptor. [MS-MQQB] 3.1.7.6 to 3.1.7.9 and 3.1.6.8.

The machine is that of figure 11 (3.1.1.1.1.9), one for each request, since each has its own timer.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Protocol
from uuid import UUID

import attrs
from automat import TypeMachineBuilder

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.machines import indexed
from msmq.moment import Moment
from msmq.quoting import quoted
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from msmq.wire.addresses import read_address


@attrs.frozen
class PingEnded:
    """The end of a request: what Send Ping Request returns, and why.

    @ivar cookie: the request's Cookie.
    @ivar host: the address that was pinged.
    @ivar status: rStatus, whether the acceptor would accept a session.
    @ivar response: what it answered; C{None} when the timer expired first.
    @ivar seconds: from the request to its end.
    """

    cookie: int
    host: str
    status: bool
    response: Ping | None
    seconds: float


@attrs.define
class PingRequest:
    """One Ping Request, with its Ping Response Timer. [MS-MQQB] 3.1.7.6 and 3.1.2.9.

    @ivar datagram: the packet to send to the ping port of C{host}.
    @ivar deadline: the monotonic second at which the timer expires.
    @ivar ended: the outcome, once there is one.
    """

    cookie: int
    host: str
    datagram: bytes
    sent: float
    deadline: float
    ended: PingEnded | None = None

    def end(self, status: bool, response: Ping | None, now: Moment) -> None:
        """Settle rStatus. [MS-MQQB] 3.1.7.6."""
        self.ended = PingEnded(self.cookie, self.host, status, response, now.monotonic - self.sent)


class PingInputs(Protocol):
    """The inputs of one request; every input is handled in every state."""

    def send_ping_request(self) -> None:
        """The request is sent, and its timer starts. [MS-MQQB] 3.1.7.6."""

    def accepting_response(self, response: Ping, now: Moment) -> None:
        """A response of this request arrived with RF clear. [MS-MQQB] 3.1.7.9."""

    def refusing_response(self, response: Ping, now: Moment) -> None:
        """A response of this request arrived with RF set. [MS-MQQB] 3.1.7.9."""

    def ping_response_timer(self, now: Moment) -> None:
        """The timer expired. [MS-MQQB] 3.1.6.8."""

    def abandon(self) -> None:
        """The caller has cancelled the request."""


def _machine() -> TypeMachineBuilder[PingInputs, PingRequest]:
    builder = TypeMachineBuilder(PingInputs, PingRequest)
    initial = builder.state("INITIAL")
    waiting = builder.state("WAITING_FOR_PING_RESPONSE")
    returned_true = builder.state("TRUE")
    returned_false = builder.state("FALSE")
    abandoned = builder.state("ABANDONED")

    initial.upon(PingInputs.send_ping_request).to(waiting).returns(None)

    @waiting.upon(PingInputs.accepting_response).to(returned_true)
    def return_true(inputs: PingInputs, request: PingRequest, response: Ping, now: Moment) -> None:
        request.end(True, response, now)

    @waiting.upon(PingInputs.refusing_response).to(returned_false)
    def return_false(inputs: PingInputs, request: PingRequest, response: Ping, now: Moment) -> None:
        request.end(False, response, now)

    @waiting.upon(PingInputs.ping_response_timer).to(returned_false)
    def give_up(inputs: PingInputs, request: PingRequest, now: Moment) -> None:
        request.end(False, None, now)

    initial.upon(PingInputs.accepting_response).loop().returns(None)
    initial.upon(PingInputs.refusing_response).loop().returns(None)
    initial.upon(PingInputs.ping_response_timer).loop().returns(None)
    initial.upon(PingInputs.abandon).to(abandoned).returns(None)
    waiting.upon(PingInputs.send_ping_request).loop().returns(None)
    waiting.upon(PingInputs.abandon).to(abandoned).returns(None)
    for over in (returned_true, returned_false, abandoned):
        over.upon(PingInputs.send_ping_request).loop().returns(None)
        over.upon(PingInputs.accepting_response).loop().returns(None)
        over.upon(PingInputs.refusing_response).loop().returns(None)
        over.upon(PingInputs.ping_response_timer).loop().returns(None)
        over.upon(PingInputs.abandon).loop().returns(None)
    return builder


PING_MACHINE = indexed(_machine().build())
"""Makes the machine of one L{PingRequest}. [MS-MQQB] 3.1.1.1.1.9."""


def canonical_host(host: str) -> str:
    """The canonical spelling of an IP address, so that targets and sources of pings can be compared.

    An IPv4 address that a socket for both families spells as IPv6 is given as IPv4.

    @raise LocalProtocolError: it is not an IP address; names are resolved by the caller.
    """
    try:
        address = ip_address(host)
    except ValueError as error:
        raise LocalProtocolError(f"a ping is sent to an IP address, not to {quoted(host)}") from error
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.compressed


class PingInitiator:
    """Sends Ping Requests and matches their responses; one per queue manager. [MS-MQQB] 3.1.7.6.

    PingCookie starts at 0 with this object and is incremented before each request, so the first request has 1
    (note 27); it wraps after 0xFFFFFFFF.

    A response counts only if it bears the cookie of the newest request (2.2.7, 3.1.7.8) and comes
    from the host that this request went to.  An earlier request that still waits can therefore end
    only by its own timer.  The document does not specify the source port of a response, so it is not checked.

    @ivar ping_cookie: the Cookie of the newest request.
    """

    def __init__(self, identifier: UUID, settings: SessionSettings, *, ping_cookie: int = 0) -> None:
        self._identifier = identifier
        self._settings = settings
        self._waiting: dict[int, tuple[PingRequest, PingInputs]] = {}
        self.ping_cookie = ping_cookie

    def configure(self, settings: SessionSettings) -> None:
        """Apply another Ping Response Timer to later requests."""
        self._settings = settings

    def ask(self, host: str, now: Moment) -> PingRequest:
        """Create the next request; the caller sends its datagram at once. [MS-MQQB] 3.1.7.6.

        @param host: the IP address of the acceptor.
        @raise LocalProtocolError: C{host} is not an IP address.
        """
        host = canonical_host(host)
        self.ping_cookie = (self.ping_cookie + 1) & 0xFFFFFFFF
        packet = Ping(self.ping_cookie, self._identifier, is_workstation=not self._settings.is_server)
        deadline = now.monotonic + self._settings.ping_response
        request = PingRequest(packet.cookie, host, packet.to_bytes(), now.monotonic, deadline)
        machine = PING_MACHINE(request)
        machine.send_ping_request()
        self._waiting[request.cookie] = request, machine
        return request

    def receive(self, datagram: bytes, host: str, now: Moment) -> PingEnded | None:
        """Process a datagram that arrived at the source port of requests. [MS-MQQB] 3.1.7.8.

        @param host: the address that it came from.
        @return: the end of the request that it answers; C{None} when it is ignored.
        """
        try:
            response = Ping.from_bytes(datagram)
        except RemoteProtocolError:
            return None
        if response.cookie != self.ping_cookie or response.cookie not in self._waiting:
            return None
        request, machine = self._waiting[response.cookie]
        # A socket gives a link-local address without the scope with which it was sent to.
        if read_address(host) != read_address(request.host):
            return None
        if response.is_refused:
            machine.refusing_response(response, now)
        else:
            machine.accepting_response(response, now)
        del self._waiting[response.cookie]
        return request.ended

    def expire(self, now: Moment) -> list[PingEnded]:
        """End the requests whose timers have expired, oldest first. [MS-MQQB] 3.1.6.8."""
        due = [cookie for cookie, (request, _) in self._waiting.items() if request.deadline <= now.monotonic]
        ends: list[PingEnded] = []
        for cookie in due:
            request, machine = self._waiting.pop(cookie)
            machine.ping_response_timer(now)
            if request.ended is not None:
                ends.append(request.ended)
        return ends

    def deadline(self) -> float | None:
        """The monotonic second at which L{expire} is due; C{None} without pending requests."""
        return min((request.deadline for request, _ in self._waiting.values()), default=None)

    def abandon(self, cookie: int) -> None:
        """Drop the pending request with this cookie; its response will be ignored."""
        waiting = self._waiting.pop(cookie, None)
        if waiting is not None:
            waiting[1].abandon()
