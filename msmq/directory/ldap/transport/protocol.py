"""LDAP client protocol: one connection to a server with concurrent requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from msmq.directory.ldap.settings import ANSWER_TIMEOUT
from msmq.directory.ldap.transport.decoder import (
    HEAD,
    LONGEST_MESSAGE,
    LdapTooLongError,
    decoding,
    message_length,
    message_number,
    too_long,
)
from msmq.directory.ldap.transport.wire import (
    Abandon,
    Answer,
    Entry,
    LdapControl,
    LdapWireError,
    Request,
    Result,
    SearchReference,
    encode,
)
from msmq.errors import MsmqError

MOST_ENTRIES: Final = 100_000
"""Limit on the entries of one answer."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Limit on the bytes of all entries of one answer."""

BYTES_OF_A_VALUE: Final = 64
"""Bytes that an entry takes in memory for each value, in addition to those in which it was sent."""

MESSAGES_AT_ONCE: Final = 16
"""Messages that are decoded in one iteration of the reactor, if none of them is long."""

BYTES_AT_ONCE: Final = 64 * 1024
"""Bytes after which no further message is begun in an iteration."""

_MOST_WAITING: Final = 1024 * 1024
_HIGHEST_NUMBER: Final = 2**31 - 1


class LdapDisconnectedError(MsmqError):
    """A server cannot be reached, the connection was lost, or there was no answer."""


class LdapUnansweredError(LdapDisconnectedError):
    """A connection was closed because the server did not answer in time."""


class LdapAnswerError(MsmqError):
    """The answer to one request is too large; the connection is not affected."""


@attrs.frozen
class Answered:
    """The whole answer to one request.

    @ivar is_partial: other servers have more results; they are not queried.
    """

    result: Result
    entries: Sequence[Entry] = attrs.field(repr=False)
    is_partial: bool = False


@attrs.define
class _Asked:
    deferred: Deferred[Answered]
    timeout: IDelayedCall
    entries: list[Entry] = attrs.field(factory=list)
    size: int = 0
    is_partial: bool = False


class LdapProtocol(Protocol):
    """Sends requests to a server and collects its answers.

    Messages that arrive together are decoded a few at a time, and a long one in several turns of the
    reactor; the connection is paused while many are queued.
    If a server violates the protocol, or does not answer in time, the connection is closed; all its requests
    fail.
    An answer that is too large fails alone, and its operation is abandoned.

    @ivar is_connected: whether requests can be sent.
    """

    def __init__(self, reactor: IReactorTime, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        self.is_connected = False
        self._reactor = reactor
        self._answer_timeout = answer_timeout
        self._asked: dict[int, _Asked] = {}
        self._last_number = 0
        self._buffer = bytearray()
        self._to_discard = 0
        self._waiting: deque[bytes] = deque()
        self._steps: Generator[None, None, tuple[int, Answer]] | None = None
        self._bytes_waiting = 0
        self._size = 0
        self._is_held_up = False
        self._next_turn: IDelayedCall | None = None
        self._fault = ""

    def ask(self, request: Request, controls: Sequence[LdapControl] = ()) -> Deferred[Answered]:
        """Send a request; any result of the server comes through the Deferred.

        @raise LdapDisconnectedError: through the Deferred; L{LdapUnansweredError} after a timeout.
        @raise LdapAnswerError: likewise; the answer is too large.
        @raise UnicodeEncodeError: a text has an unpaired surrogate, which cannot occur in a directory.
        """
        if not self.is_connected:
            return fail(LdapDisconnectedError(self._fault or "the connection is closed"))
        number = self._next_number()
        # What cannot be encoded is an error before anything waits for an answer.
        encoded = encode(number, request, controls)
        timeout = self._reactor.callLater(
            self._answer_timeout,
            self._leave,
            f"no answer within {self._answer_timeout:g} seconds",
            LdapUnansweredError,
        )
        deferred: Deferred[Answered] = Deferred()
        self._asked[number] = _Asked(deferred, timeout)
        self._write(encoded)
        return deferred

    def _next_number(self) -> int:
        self._last_number = self._last_number % _HIGHEST_NUMBER + 1
        return self._last_number

    def _write(self, message: bytes) -> None:
        transport: Any = self.transport
        transport.write(message)

    def start_tls(self, options: Any) -> None:
        """Start TLS; unencrypted data after the server's consent is an error.

        @param options: as C{optionsForClientTLS} returns them.
        @raise LdapDisconnectedError: there was unencrypted data.
        """
        if self._waiting or self._buffer:
            self._leave("the server sent unencrypted data where TLS was to begin")
        if not self.is_connected:
            raise LdapDisconnectedError(self._fault)
        transport: Any = self.transport
        transport.startTLS(options)

    def close(self) -> None:
        """Close the connection."""
        self._leave("the connection is closed")

    def connectionMade(self) -> None:
        """See L{Protocol.connectionMade}."""
        self.is_connected = True

    def dataReceived(self, data: bytes) -> None:
        """See L{Protocol.dataReceived}."""
        if self._to_discard:
            discarded = min(len(data), self._to_discard)
            self._to_discard -= discarded
            data = data[discarded:]
        self._buffer += data
        try:
            del self._buffer[: self._separate()]
        except LdapWireError as error:
            self._leave(str(error))
            return
        if self._next_turn is None:
            self._take_some()

    def _separate(self) -> int:
        """Queue the whole messages of the buffer; returns how many of its bytes they are."""
        start = 0
        while (length := message_length(self._buffer, start)) is not None:
            there = len(self._buffer) - start
            if length > LONGEST_MESSAGE:
                if there < HEAD:
                    break
                self._refuse(too_long(bytes(self._buffer[start : start + HEAD]), length))
                self._to_discard = max(0, length - there)
                start += min(there, length)
                continue
            if there < length:
                break
            with memoryview(self._buffer) as view:
                self._waiting.append(bytes(view[start : start + length]))
            self._bytes_waiting += length
            start += length
        return start

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """See L{Protocol.connectionLost}."""
        self._end(self._fault or f"the connection was lost: {_describe_loss(reason)}")

    def _take_some(self) -> None:
        self._next_turn = None
        taken = 0
        for _ in range(MESSAGES_AT_ONCE):
            if self._steps is None:
                if not self._waiting or taken > BYTES_AT_ONCE:
                    break
                message = self._waiting.popleft()
                taken += len(message)
                self._bytes_waiting -= len(message)
            else:
                message = b""
            try:
                if self._decode_step(message):
                    break
            except LdapTooLongError as error:
                self._steps = None
                self._refuse(error)
            except LdapWireError as error:
                self._leave(str(error))
        transport: Any = self.transport
        if self._waiting or self._steps is not None:
            self._next_turn = self._reactor.callLater(0, self._take_some)
        # The queue has room for more than one answer, or a longer one could never be accepted.
        if not self._is_held_up and self._bytes_waiting > _MOST_WAITING:
            self._is_held_up = True
            transport.pauseProducing()
        elif self._is_held_up and self._bytes_waiting <= _MOST_WAITING // 2:
            self._is_held_up = False
            if self.is_connected:
                transport.resumeProducing()

    def _decode_step(self, message: bytes) -> bool:
        """Decode one step of a message; returns whether more steps are left.

        @param message: empty for the one that is being decoded.
        """
        if self._steps is None:
            number = message_number(message)
            if number and number not in self._asked:
                return False
            self._steps = decoding(message)
            self._size = len(message)
        try:
            next(self._steps)
        except StopIteration as ended:
            self._steps = None
            self._take(*ended.value)
            return False
        return True

    def _take(self, number: int, answer: Answer) -> None:
        if number == 0:
            said = answer.message if isinstance(answer, Result) else ""
            self._leave(f"the server closed the connection: {said}")
            return
        asked = self._asked.get(number)
        if asked is None:
            return
        if isinstance(answer, Entry):
            asked.entries.append(answer)
            asked.size += self._size + BYTES_OF_A_VALUE * sum(map(len, answer.values.values()))
            if len(asked.entries) > MOST_ENTRIES:
                self._refuse(LdapTooLongError(number, f"an answer has more than {MOST_ENTRIES} entries"))
            elif asked.size > MOST_BYTES:
                self._refuse(LdapTooLongError(number, f"an answer has more than {MOST_BYTES} bytes"))
        elif isinstance(answer, SearchReference):
            asked.is_partial = True
        elif isinstance(answer, Result):
            del self._asked[number]
            asked.timeout.cancel()
            asked.deferred.callback(Answered(answer, asked.entries, asked.is_partial))

    def _refuse(self, error: LdapTooLongError) -> None:
        """Fail one request, and abandon its operation on the server."""
        asked = self._asked.pop(error.number, None)
        if asked is not None:
            asked.timeout.cancel()
            self._write(encode(self._next_number(), Abandon(error.number)))
            asked.deferred.errback(LdapAnswerError(str(error)))

    def _leave(self, fault: str, kind: type[LdapDisconnectedError] = LdapDisconnectedError) -> None:
        if self.is_connected:
            self._fault = fault
            transport: Any = self.transport
            transport.abortConnection()
            self._end(fault, kind)

    def _end(self, fault: str, kind: type[LdapDisconnectedError] = LdapDisconnectedError) -> None:
        self.is_connected = False
        self._fault = fault
        self._waiting.clear()
        self._steps = None
        self._to_discard = self._bytes_waiting = 0
        self._buffer.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        asked, self._asked = self._asked, {}
        for each in asked.values():
            if each.timeout.active():
                each.timeout.cancel()
            each.deferred.errback(kind(fault))


def _describe_loss(reason: Failure) -> str:
    """Why a connection was lost; for an error of OpenSSL the last of its texts."""
    arguments = getattr(reason.value, "args", ())
    if type(reason.value).__module__ == "OpenSSL.SSL" and arguments and arguments[0]:
        return f"TLS failed: {arguments[0][-1][-1]}"
    return reason.getErrorMessage()
