"""Blocking HTTP requests to the control API."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msmq.control.authentication.tokens import TokenError
from msmq.control.client.locations import Location, UnixLocation
from msmq.control.protocol.records import PROTOCOL, WITH_RUNS
from msmq.control.protocol.refusals import read_refusal
from msmq.errors import LocalProtocolError
from msmq.structures.status import MQError, Status

_LONGEST_REFUSAL: Final = 0x10000


class ControlRequests:
    """Sends requests to one server, each on a connection of its own.

    A refusal raises L{MQError}; MQ_ERROR_SERVICE_NOT_AVAILABLE if the server cannot be reached or
    goes away.
    """

    def __init__(self, where: Path | Location, *, patience: float | None = None) -> None:
        """Create a client of a server.

        @param where: its control socket, or what L{msmq.control.client.locations.parse_location} reads.
        @param patience: seconds without a connection, without a byte of a response, or for which the server
            reads nothing of a stream, after which it counts as lost; C{None} for no limit of these.
        """
        self._patience = patience
        self._where = UnixLocation(where) if isinstance(where, Path) else where

    @property
    def where(self) -> Location:
        """The location of the server."""
        return self._where

    @property
    def patience(self) -> float | None:
        """Seconds of silence after which the server counts as lost; C{None} for no limit."""
        return self._patience

    def call(self, method: str, target: str, body: bytes = b"") -> Any:
        """Send a request and return its JSON response."""
        with contextlib.closing(self.open()) as connection:
            response = self.begin(connection, method, target, body)
            with self.losing():
                return json.loads(response.read())

    def octets(self, method: str, target: str, body: bytes = b"") -> bytes:
        """Send a request and return the bytes of its response."""
        with contextlib.closing(self.open()) as connection:
            response = self.begin(connection, method, target, body)
            with self.losing():
                return response.read()

    def begin(
        self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes = b""
    ) -> http.client.HTTPResponse:
        """Send a request, and wait for the head of its response.

        @raise MQError: the server refuses the request.
        """
        headers = {"Content-Type": "application/json"} if body else {}
        response = self.ask(connection, method, target, body, headers)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            with self.losing():
                raise read_refusal(response.read(_LONGEST_REFUSAL), f"HTTP status {response.status}")
        return response

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        """Convert every kind of interrupted answer into one refusal."""
        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self.lost(str(error) or type(error).__name__) from error

    def lost(self, reason: str) -> MQError:
        """The error for a server that disconnected, or does not speak the protocol."""
        return MQError(
            Status.MQ_ERROR_SERVICE_NOT_AVAILABLE,
            f"the connection to the queue manager at {self._where} was lost: {reason}",
        )

    def open(self) -> http.client.HTTPConnection:
        """Create a connection, which connects at its first request.

        @raise MQError: no connection can be created.
        """
        try:
            return self._where.connection()
        except OSError as error:
            raise self._unreachable(error) from error

    def connect(self, connection: http.client.HTTPConnection) -> None:
        """Connect a connection before its request.

        @raise OSError: it cannot be connected.
        """
        connection.connect()

    def ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | Iterator[bytes],
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        """Connect, send a request, and return its response, whatever its status.

        @raise MQError: no response arrives, or the token cannot be read.
        """
        if self._patience is not None and connection.timeout is not None:
            connection.timeout = min(connection.timeout, self._patience)
        try:
            shown = self._where.headers()
            self.connect(connection)
        except TokenError as error:
            raise MQError(Status.MQ_ERROR_ACCESS_DENIED, str(error)) from error
        except (OSError, UnicodeError) as error:
            # The name of a computer that no resolver takes, with an empty label for example, is the latter.
            raise self._unreachable(error) from error
        with self.losing():
            if self._patience is not None:
                connection.sock.settimeout(self._patience)
            connection.request(method, target, body, {**headers, **shown})
            return connection.getresponse()

    def _unreachable(self, error: OSError | UnicodeError) -> MQError:
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted: {error.verify_message}"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        return MQError(
            Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, f"no queue manager answers at {self._where}: {reason}"
        )

    def upgrade(self, connection: http.client.HTTPConnection, target: str) -> http.client.HTTPResponse:
        """Upgrade a connection to records in both directions, and wait for the server's agreement.

        @raise MQError: the server refuses.
        """
        headers = {"Connection": "Upgrade", "Upgrade": f"{WITH_RUNS}, {PROTOCOL}"}
        response = self.ask(connection, "GET", target, b"", headers)
        if response.status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            with self.losing():
                raise read_refusal(response.read(_LONGEST_REFUSAL), f"HTTP status {response.status}")
        return response

    def one(self, method: str, target: str, body: bytes = b"") -> dict[str, Any]:
        """Send a request and return the JSON object of its response."""
        answer = self.call(method, target, body)
        if not isinstance(answer, dict):
            raise self.lost("its response is not a JSON object")
        return answer

    def several(self, target: str, method: str = "GET", body: bytes = b"") -> list[dict[str, Any]]:
        """Send a request and return the JSON objects of its response."""
        answer = self.call(method, target, body)
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            raise self.lost("its response is not a list of JSON objects")
        return answer

    def lines(
        self, method: str, target: str, broken: str, body: bytes = b"", *, last: str = "end"
    ) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects that the server sends while it works, up to the one with the last key.

        Closing the iterator closes the connection, which stops the work.

        @param broken: the text for an error that cannot be parsed.
        @param last: a key of the last object.
        @raise MQError: the request is refused, at once or later.
        """
        with contextlib.closing(self.open()) as connection:
            response = self.begin(connection, method, target, body)
            with self.losing(), response:
                for line in response:
                    value = json.loads(line)
                    # The refusal of a single message names the message; the stream goes on.
                    if "error" in value and "lookup_id" not in value:
                        raise read_refusal(line, broken)
                    yield value
                    if last in value:
                        return
            raise self.lost("the answer ended early")

    def purge(self, target: str, progress: Callable[[int], None] | None) -> dict[str, Any]:
        """Purge what a target names, and return how many messages were removed, as C{purged}.

        @param progress: called each second with the number of remaining messages; C{None} for a plain answer.
        @raise MQError: refused; the messages removed before stay removed.
        """
        if progress is None:
            return self.one("POST", target)
        target = f"{target}?progress=true"
        for value in self.lines("POST", target, "the purge was interrupted", last="purged"):
            if "purged" in value:
                return value
            progress(value["messages"])
        raise self.lost("the answer ended early")


def json_body(value: Mapping[str, object]) -> bytes:
    """The body of a request with a JSON object.

    @raise LocalProtocolError: a value is nothing that JSON can say.
    """
    try:
        return json.dumps(dict(value), allow_nan=False).encode("ascii")
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(f"the body of a request is not JSON: {error}") from error
