"""One connection to an LDAP server, without the server."""

from __future__ import annotations

from typing import Any

from ldaptor.protocols import pureldap
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.settings import ANSWER_TIMEOUT
from msmq.directory.ldap.transport import protocol
from msmq.directory.ldap.transport.decoder import PARTS_AT_ONCE
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.protocol import (
    MESSAGES_AT_ONCE,
    LdapAnswerError,
    LdapDisconnectedError,
    LdapProtocol,
)
from msmq.directory.ldap.transport.wire import Abandon, Scope, SearchRequest, StartTls, encode
from tests.directory.ldap.encoding import group

SEARCH = SearchRequest("DC=example", Scope.TREE, ANYTHING)


def entry(number: int, name: str, size: int = 1) -> bytes:
    operation = pureldap.LDAPSearchResultEntry(name, [("a", [b"x" * size])])
    return bytes(pureldap.LDAPMessage(operation, id=number).toWire())


def done(number: int) -> bytes:
    return bytes(pureldap.LDAPMessage(pureldap.LDAPSearchResultDone(resultCode=0), id=number).toWire())


class LdapProtocolTests(SynchronousTestCase):
    """Faults of a server and their effects on requests."""

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.transport = StringTransport()
        self.protocol = LdapProtocol(self.clock)
        self.protocol.makeConnection(self.transport)

    def fault_of(self, asked: Deferred[Any]) -> str:
        return str(self.failureResultOf(asked, LdapDisconnectedError).value)

    def test_answers_cross(self) -> None:
        """Each answer finds its request, though the server answers the last one first."""
        first, second = self.protocol.ask(SEARCH), self.protocol.ask(SEARCH)
        self.protocol.dataReceived(entry(2, "CN=b") + done(2) + entry(1, "CN=a") + done(1))
        for asked, name in ((first, "CN=a"), (second, "CN=b")):
            self.assertEqual([each.name for each in self.successResultOf(asked).entries], [name])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_request_that_cannot_be_encoded(self) -> None:
        """It is an error of its caller, and the connection and its other requests continue."""
        other = self.protocol.ask(SEARCH)
        self.assertRaises(
            UnicodeEncodeError, self.protocol.ask, SearchRequest("\ud800", Scope.TREE, ANYTHING)
        )
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.protocol.dataReceived(done(1))
        self.successResultOf(other)
        self.clock.advance(ANSWER_TIMEOUT)
        self.assertTrue(self.protocol.is_connected)

    def test_byte_by_byte(self) -> None:
        """It makes no difference in how many pieces an answer comes."""
        asked = self.protocol.ask(SEARCH)
        for byte in entry(1, "CN=a", 300) + done(1):
            self.protocol.dataReceived(bytes([byte]))
        self.assertEqual(len(self.successResultOf(asked).entries), 1)

    def test_a_few_at_a_time(self) -> None:
        """A thousand entries that come together are processed in slices, with other work in between."""
        asked = self.protocol.ask(SEARCH)
        self.protocol.dataReceived(b"".join(entry(1, f"CN={n}") for n in range(1000)) + done(1))
        slices = 1
        while not asked.called:
            self.turn()
            slices += 1
        self.assertEqual(slices, -(-1001 // MESSAGES_AT_ONCE))
        self.assertEqual(len(self.successResultOf(asked).entries), 1000)

    def test_server_is_held_up(self) -> None:
        """A server that sends faster than is taken has to wait."""
        asked = self.protocol.ask(SEARCH)
        self.protocol.dataReceived(entry(1, "CN=x", 60_000) * 40)
        self.assertEqual(self.transport.producerState, "paused")
        self.clock.advance(0)
        self.assertEqual(self.transport.producerState, "producing")
        self.protocol.dataReceived(done(1))
        self.assertEqual(len(self.successResultOf(asked).entries), 40)

    def test_more_than_there_can_be(self) -> None:
        """An answer without an end fails before it fills the memory; its rest is not wanted."""
        self.patch(protocol, "MOST_BYTES", 1000)
        asked, other = self.protocol.ask(SEARCH), self.protocol.ask(SEARCH)
        self.protocol.dataReceived(entry(1, "CN=x", 200) * 3)
        self.assertNoResult(asked)
        self.protocol.dataReceived(entry(1, "CN=x", 200) * 2)
        refused = self.failureResultOf(asked, LdapAnswerError)
        self.assertIn("an answer has more than 1000 bytes", str(refused.value))
        self.assertTrue(self.transport.value().endswith(encode(3, Abandon(1))))
        self.protocol.dataReceived(entry(1, "CN=x", 200) + entry(2, "CN=y") + done(2))
        self.assertEqual([each.name for each in self.successResultOf(other).entries], ["CN=y"])

    def test_message_that_is_too_long(self) -> None:
        """A message that is too long fails its request by the name of the entry, and is discarded."""
        self.patch(protocol, "LONGEST_MESSAGE", 10_000)
        for size in (10_000, 100_000):
            self.setUp()
            asked, other = self.protocol.ask(SEARCH), self.protocol.ask(SEARCH)
            data = entry(1, "CN=huge", size) + done(1) + entry(2, "CN=y") + done(2)
            for start in range(0, len(data), 3000):
                self.protocol.dataReceived(data[start : start + 3000])
            refused = self.failureResultOf(asked, LdapAnswerError)
            self.assertIn(f"CN=huge has {len(entry(1, 'CN=huge', size))} bytes", str(refused.value))
            self.assertEqual([each.name for each in self.successResultOf(other).entries], ["CN=y"])

    def test_many_values_in_several_iterations(self) -> None:
        """The members of a large group, which come in one message, are decoded in several iterations."""
        asked = self.protocol.ask(SEARCH)
        self.protocol.dataReceived(group(10 * PARTS_AT_ONCE, number=1) + done(1))
        for _ in range(10):
            self.assertNoResult(asked)
            self.turn()
        [found] = self.successResultOf(asked).entries
        self.assertEqual(len(found.all("member")), 10 * PARTS_AT_ONCE)

    def turn(self) -> None:
        """One iteration of the reactor; the clock would run all of them as long as no time passes."""
        [turn] = [call for call in self.clock.getDelayedCalls() if call.getTime() == 0]
        function = turn.func
        turn.cancel()
        function()

    def test_silence(self) -> None:
        """The connection to a silent server is closed, and all its requests fail."""
        asked = [self.protocol.ask(SEARCH), self.protocol.ask(SEARCH)]
        self.protocol.dataReceived(entry(1, "CN=a"))
        self.clock.advance(ANSWER_TIMEOUT)
        for each in asked:
            self.assertIn("no answer within 30 seconds", self.fault_of(each))
        self.assertTrue(self.transport.disconnecting or self.transport.disconnected)
        self.assertFalse(self.protocol.is_connected)

    def test_connection_lost(self) -> None:
        """Pending and later requests fail."""
        before = self.protocol.ask(SEARCH)
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertIn("connection was lost", self.fault_of(before))
        self.assertIn("connection was lost", self.fault_of(self.protocol.ask(SEARCH)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_notice_of_disconnection(self) -> None:
        """A server that says good-bye is left, with its reason."""
        asked = self.protocol.ask(SEARCH)
        notice = pureldap.LDAPExtendedResponse(
            resultCode=52, errorMessage=b"shutting down", responseName=b"1.3.6.1.4.1.1466.20036"
        )
        self.protocol.dataReceived(bytes(pureldap.LDAPMessage(notice, id=0).toWire()))
        self.assertIn("shutting down", self.fault_of(asked))

    def test_nonsense(self) -> None:
        """A server that speaks no LDAP is left."""
        for nonsense in (b"HTTP/1.1 400 Bad Request\r\n", b"\x30\x03abc"):
            self.setUp()
            asked = self.protocol.ask(SEARCH)
            self.protocol.dataReceived(nonsense)
            self.assertIn("LDAP message", self.fault_of(asked))

    def test_unrequested_answer(self) -> None:
        """It is ignored."""
        asked = self.protocol.ask(SEARCH)
        self.protocol.dataReceived(done(77) + done(1))
        self.assertEqual(list(self.successResultOf(asked).entries), [])

    def test_words_before_tls(self) -> None:
        """Bytes that an attacker puts behind the consent to TLS are not used."""
        answered = self.protocol.ask(StartTls())
        answered.addCallback(lambda _: self.protocol.start_tls(None))
        self.protocol.dataReceived(done(1) + done(2))
        self.assertIn("unencrypted data", self.fault_of(answered))
        self.assertFalse(self.protocol.is_connected)
