"""Transactions as an administrator sees them."""

from __future__ import annotations

from msmq.queues.arriving.message import Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.wire.guid import format_guid
from tests.control.support import ORDERS, ControlTestCase, resource

UNKNOWN = "11111111-2222-3333-4444-555555555555"


class TransactionTests(ControlTestCase):
    """One transaction that sends, receives and moves."""

    def setUp(self) -> None:
        super().setUp()
        self.tx = self.make_queue("tx", transactional=True)
        self.put(b"1", b"2", queue=self.tx, transactional=True)
        self.first, self.second = self.identifiers(self.tx)
        self.transaction = self.service.begin()
        self.identifier = format_guid(self.transaction.identifier)
        [sent] = self.run_to_end(
            self.service.send(self.tx, [Message(transactional=True)], transaction=self.transaction)
        )
        self.sent = str(sent)
        self.run_to_end(self.service.reserve(self.tx, transaction=self.transaction))
        self.run_to_end(
            self.service.move(
                MessageIdentifier.parse(self.second), self.tx + ";later", transaction=self.transaction
            )
        )

    def test_list(self) -> None:
        """Each is there with its state, its beginning, and how much it does."""
        [listed] = self.call("GET", "/v1/transactions").json
        self.assertEqual((listed["identifier"], listed["state"]), (self.identifier, "active"))
        self.assertRegex(listed["began"], r"^\d{4}-\d\d-\d\dT")
        self.assertEqual((listed["sent"], listed["received"], listed["moved"]), (1, 1, 1))

    def test_show(self) -> None:
        """One transaction has its messages, in the order in which it dealt with them."""
        for identifier in (self.identifier, f"{{{self.identifier.lower()}}}"):
            shown = self.call("GET", resource("transactions", identifier)).json
            self.assertEqual(shown["identifier"], self.identifier)
            self.assertEqual(
                [(message["operation"], message["queue"], message["id"]) for message in shown["messages"]],
                [
                    ("send", self.tx, self.sent),
                    ("receive", self.tx, self.first),
                    ("move", self.tx, self.second),
                ],
            )

    def test_abort(self) -> None:
        """An abort by any caller returns what was received and moved, and drops what was sent."""
        answer = self.call("POST", resource("transactions", self.identifier, "abort"))
        self.assertEqual((answer.status, answer.json), (200, {"aborted": self.identifier}))
        self.assertEqual(self.bodies(self.tx), [b"1", b"2"])
        self.assertEqual(self.call("GET", "/v1/transactions").json, [])
        answer = self.call("POST", resource("transactions", self.identifier, "abort"))
        self.assert_refused(answer, 409, "MQ_ERROR_TRANSACTION_SEQUENCE")

    def test_unknown_transaction(self) -> None:
        """A transaction that is not there, and a name of none, are named."""
        for method, action in (("GET", ""), ("POST", "abort")):
            answer = self.call(method, resource("transactions", UNKNOWN, action))
            self.assert_refused(answer, 409, "MQ_ERROR_TRANSACTION_SEQUENCE", UNKNOWN)
            answer = self.call(method, resource("transactions", "nonsense", action))
            self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "nonsense")

    def test_long_transaction(self) -> None:
        """The first thousand messages of a long transaction are shown; all are counted."""
        messages = [Message(transactional=True)] * 1500
        self.run_to_end(self.service.send(self.tx, messages, transaction=self.transaction))
        shown = self.call("GET", resource("transactions", self.identifier)).json
        self.assertEqual((shown["sent"], len(shown["messages"])), (1501, 1000))

    def test_message_in_a_transaction(self) -> None:
        """A message in a transaction cannot be moved by other callers, and C{explain} names the
        transaction.
        """
        answer = self.post(resource("messages", self.first, "move"), {"queue": self.tx + ";sub"})
        self.assert_refused(answer, 409, "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION", self.first)
        [place] = self.call("GET", resource("messages", self.first)).json["places"]
        self.assertEqual((place["queue"], place["state"]), (self.tx, "locked"))
        self.assertEqual(place["transaction"], self.identifier)

    def test_plain_queue_in_a_transaction(self) -> None:
        """Other queues are as before."""
        self.put(b"plain")
        self.assertEqual(self.bodies(ORDERS), [b"plain"])
