"""Asks other servers of the estate what they know about a message."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPResponse
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults

from msmq.control.client.client import ControlClient
from msmq.control.client.locations import LocationError, parse_location
from msmq.control.protocol.joined_explanations import ServerExplanation, check_explanation
from msmq.control.protocol.records import json_problem, parse_json
from msmq.control.server.http.disconnection import shielded
from msmq.structures.status import MQError, Status

MOST_ASKED: Final = 32
"""Servers that one explanation asks."""

AT_ONCE: Final = 4
"""Servers that are asked at the same time, by all readers of the console together."""

PATIENCE: Final = 4.0
"""Seconds for a connection to a server, and for each part of its answer."""

WHOLE: Final = 20.0
"""Seconds for an answer, with its head."""

LONGEST: Final = 0x800000
"""Bytes of an answer."""

_READ: Final = 0x10000

_T = TypeVar("_T")


class MessageExplainer(Protocol):
    """The client of one server."""

    def explain(self, message: str) -> dict[str, Any]:
        """Everything that it knows about a message; blocks.

        @raise MQError: there is no answer.
        """


class InThread(Protocol):
    """Runs blocking work in a thread."""

    def __call__(self, work: Callable[[], _T]) -> Deferred[_T]:
        """Return the result of the work."""


class _LimitedReads(io.RawIOBase):
    """What a server sends, for L{WHOLE} seconds at most: a head of HTTP may have no end either."""

    def __init__(self, received: io.RawIOBase) -> None:
        self._received = received
        self._until = monotonic() + WHOLE

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """Read what there is.

        @raise TimeoutError: the answer takes too long.
        """
        if monotonic() > self._until:
            raise TimeoutError(f"its response takes longer than {WHOLE:g} s")
        return self._received.readinto(buffer)

    def close(self) -> None:
        """Close what it reads."""
        self._received.close()
        super().close()


class _LimitedResponse(HTTPResponse):
    """A response that has to end in time."""

    def __init__(self, sock: socket.socket, debuglevel: int = 0, method: str | None = None) -> None:
        super().__init__(sock, debuglevel, method)
        self.fp = io.BufferedReader(_LimitedReads(self.fp.detach()))


class MemberClient(ControlClient):
    """A client that does not wait long for a server that does not answer, nor reads an answer without end."""

    def connect(self, connection: HTTPConnection) -> None:
        """See L{ControlRequests.connect<msmq.control.client.requests.ControlRequests.connect>}."""
        connection.timeout = PATIENCE
        connection.response_class = _LimitedResponse
        super().connect(connection)
        connection.sock.settimeout(PATIENCE)

    def call(self, method: str, target: str, body: bytes = b"") -> Any:
        """See L{ControlRequests.call<msmq.control.client.requests.ControlRequests.call>}.

        @raise MQError: also if the response has more than L{LONGEST} bytes, or takes longer than L{WHOLE}.
        """
        with closing(self.open()) as connection:
            response = self.begin(connection, method, target, body)
            with self.losing():
                whole = self._whole(response)
                try:
                    return parse_json(whole)
                except RecursionError as error:
                    raise self.lost(f"its response is not JSON: {json_problem(error)}") from error

    def _whole(self, response: HTTPResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_READ):
            parts.append(part)
            size += len(part)
            if size > LONGEST:
                raise self.lost(f"its response has more than {LONGEST} bytes")
        return b"".join(parts)


def member_client(token_file: str, endpoint: str) -> MessageExplainer:
    """The client of a server.

    @raise MQError: the endpoint is invalid.
    """
    try:
        return MemberClient(parse_location(endpoint, token_file=token_file))
    except LocationError as error:
        raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, str(error)) from error


class MemberExplanations:
    """The other servers of the estate.

    @param members: their control endpoints, by name.
    @param client_of: the client of an endpoint; C{None} asks no server.
    @param in_thread: runs requests, which block.
    @ivar names: the servers that are asked.
    """

    def __init__(
        self,
        members: Mapping[str, str],
        client_of: Callable[[str], MessageExplainer] | None,
        in_thread: InThread,
    ) -> None:
        self._members = members
        self._client_of = client_of
        self._in_thread = in_thread
        self._slots = DeferredSemaphore(AT_ONCE)
        self.names: Sequence[str] = () if client_of is None else sorted(members)[:MOST_ASKED]

    def ask(self, message: str) -> Deferred[list[ServerExplanation]]:
        """The answers of all servers, by name; one that does not answer has the reason.

        Cancelling the Deferred queries no further server. Those that are being queried occupy their threads
        until they have answered or are given up, and count for L{AT_ONCE} as long.
        """
        return gatherResults(
            [Deferred.fromCoroutine(self._asked(name, message)) for name in self.names],
            consumeErrors=True,
        )

    async def _asked(self, name: str, message: str) -> ServerExplanation:
        await self._slots.acquire()
        return await shielded(
            self._in_thread(partial(self._explained, name, message)).addBoth(self._answered)
        )

    def _answered(self, result: _T) -> _T:
        self._slots.release()
        return result

    def _explained(self, name: str, message: str) -> ServerExplanation:
        assert self._client_of is not None, "no server has a name then"
        try:
            known = self._client_of(self._members[name]).explain(message)
            check_explanation(known)
            return ServerExplanation(name, known, None)
        except MQError as error:
            return ServerExplanation(name, None, str(error))
