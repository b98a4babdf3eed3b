"""Data of an LDAP server on a connection: messages, or any bytes."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from msmq.directory.ldap.settings import ANSWER_TIMEOUT
from msmq.directory.ldap.transport.decoder import decode, message_length
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.protocol import LdapAnswerError, LdapDisconnectedError, LdapProtocol
from msmq.directory.ldap.transport.wire import Entry, LdapWireError, Scope, SearchRequest
from tests.fuzz.finding import expect

ASKED: Final = SearchRequest("DC=example", Scope.TREE, ANYTHING)


def ldap_answers(data: bytes) -> None:
    """Each request ends once, with an answer or one of two errors; nothing is larger than what was sent.

    The first byte is the size of the pieces in which the others arrive.
    """
    if not data:
        return
    size, sent = data[0] + 1, data[1:]
    _decode(sent)
    clock: Any = Clock()
    transport = StringTransport()
    protocol = LdapProtocol(clock)
    protocol.makeConnection(transport)
    asked = [protocol.ask(ASKED) for _ in range(3)]
    ended: list[object] = []
    for each in asked:
        each.addBoth(ended.append)
    for start in range(0, len(sent), size):
        if protocol.is_connected:
            protocol.dataReceived(sent[start : start + size])
        clock.advance(0)
    clock.advance(ANSWER_TIMEOUT)
    expect(len(ended) == len(asked), "each request ends, once")
    for outcome in ended:
        if isinstance(outcome, Failure):
            expect(outcome.check(LdapDisconnectedError, LdapAnswerError), "an error is one of two")
        else:
            answered: Any = outcome
            expect(sum(map(_size, answered.entries)) <= len(sent), "no value is invented")
    expect(not clock.getDelayedCalls(), "nothing is left to do")
    late: Deferred[Any] = protocol.ask(ASKED)
    late.addErrback(lambda failure: failure.trap(LdapDisconnectedError))
    protocol.close()


def _decode(data: bytes) -> None:
    try:
        length = message_length(data, 0)
        if length is None or length > len(data):
            return
        number, answer = decode(data[:length])
    except LdapWireError:
        return
    expect(0 <= number < 2**32, "a messageID has four bytes")
    if isinstance(answer, Entry):
        expect(_size(answer) <= length, "no value is invented")


def _size(entry: Entry) -> int:
    return sum(len(value) for values in entry.values.values() for value in values)
