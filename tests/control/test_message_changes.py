"""Removing, moving, copying and requeueing messages of queues through the control API."""

from __future__ import annotations

import json
from typing import Any

from twisted.logger import capturedLogs

from msmq.manager.applications.targets import own_queue
from msmq.queues.arriving.admission import Admission
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import BETA
from tests.control.support import DEAD_LETTERS, ORDERS, ControlTestCase, resource
from tests.nodes.scripted import NEGATIVE, transactional

OTHER = ".\\private$\\other"
ELSEWHERE = "DIRECT=OS:BETA\\private$\\q"


class ChangeTestCase(ControlTestCase):
    """A second queue, C{OTHER}."""

    def setUp(self) -> None:
        super().setUp()
        self.make_queue("other")

    def change(self, action: str, queue: str = ORDERS, **wanted: Any) -> list[dict[str, Any]]:
        """The lines of a change that goes to its end."""
        caller = self.caller()
        body = self.document(wanted)
        caller.ask("POST", resource("queues", queue, f"messages/{action}"), body)
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.lines

    def refused(self, action: str, queue: str = ORDERS, **wanted: Any) -> Any:
        """The answer to a change that is refused at once."""
        return self.call("POST", resource("queues", queue, f"messages/{action}"), self.document(wanted))

    def document(self, wanted: dict[str, Any]) -> bytes:
        """The body of a request."""
        return json.dumps(wanted).encode("ascii")

    def events(self) -> list[tuple[str, str]]:
        """The words and the reasons of all events of messages."""
        self.clock.advance(0)
        found = self.successResultOf(self.disk.read_events(0, 1000))
        return [(each.event.event, each.event.reason) for each in found if each.event.identity]


class RemoveTests(ChangeTestCase):
    """C{POST .../messages/remove}."""

    def test_matching(self) -> None:
        """Matching messages are removed with an event and the acknowledgement of a purge; the others stay."""
        admin = parse_format_name(f"DIRECT=OS:ALPHA{OTHER[1:]}")
        asked: dict[str, Any] = {"acknowledge": Acknowledge.NEGATIVE_RECEIVE, "admin_queue": admin}
        self.put(b"1", b"2", b"3", delivery=Delivery.RECOVERABLE, **asked)
        with capturedLogs() as logged:
            *removed, end = self.change("remove", where="body != '2'")
        self.assertEqual((len(removed), end["done"], end["failed"]), (2, 2, 0))
        self.assertEqual(self.bodies(), [b"2"])
        self.assertEqual(self.events(), [("purged", "removed by an administrator")] * 2)
        self.assertEqual(
            [each.view.message_class for each in self.seen(OTHER)], [MessageClass.NACK_Q_PURGED] * 2
        )
        audit = [event["line"] for event in logged if "outcome" in event]
        self.assertEqual(len(audit), 1)
        self.assertIn("message remove", audit[0])
        self.assertIn("2 messages were removed", audit[0])

    def test_named(self) -> None:
        """Messages by their positions; one that a reader has meanwhile is named and stays."""
        self.put(b"1", b"2", b"3")
        first, _, third = (each.lookup_id for each in self.seen())
        reservation = self.run_to_end(self.service.reserve(ORDERS, timeout=0))
        *lines, end = self.change("remove", lookup_ids=[third, first])
        self.assertEqual([line["lookup_id"] for line in lines], [third, first])
        self.assertEqual(lines[1]["error"], "MQ_ERROR_MESSAGE_NOT_FOUND")
        self.assertEqual((end["done"], end["failed"]), (1, 1))
        reservation.release()
        self.assertEqual(self.bodies(), [b"1", b"2"])

    def test_unreadable(self) -> None:
        """A message that the store cannot read is removed too."""
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        [message] = self.seen()
        position = own_queue(self.service.model, ORDERS).positions[message.lookup_id]
        position.view = None
        self.disk.damaged.add(message.lookup_id)
        # The question whether to remove it counts these.
        [line, _] = self.change("remove", lookup_ids=[message.lookup_id], dry_run=True)
        self.assertEqual((line["lookup_id"], line["id"]), (message.lookup_id, None))
        self.assertIn("unreadable", line)
        [line, _] = self.change("remove", lookup_ids=[message.lookup_id])
        self.assertEqual(line, {"lookup_id": message.lookup_id, "id": None})
        self.disk.damaged.clear()
        self.assertEqual(self.bodies(), [])

    def test_unreadable_among_all(self) -> None:
        """All messages of a queue are those that cannot be read, too; a limit or a filter selects others."""
        self.put(b"1", b"2", delivery=Delivery.RECOVERABLE)
        first = self.seen()[0].lookup_id
        own_queue(self.service.model, ORDERS).positions[first].view = None
        self.disk.damaged.add(first)
        for wanted, count in (({"all": True}, 2), ({"all": True, "limit": 5}, 1), ({"body": "2"}, 1)):
            *lines, _ = self.change("remove", dry_run=True, **wanted)
            self.assertEqual(len(lines), count)
        *lines, end = self.change("remove", all=True)
        self.assertEqual((end["done"], {line["lookup_id"] for line in lines} >= {first}), (2, True))
        self.disk.damaged.clear()
        self.assertEqual(self.bodies(), [])

    def test_dry_run(self) -> None:
        """It shows what would be removed, and nothing is; nothing is recorded."""
        self.put(b"1", b"2", label="L")
        with capturedLogs() as logged:
            *shown, end = self.change("remove", all=True, limit=1, dry_run=True)
        self.assertEqual([(each["label"], end["done"]) for each in shown], [("L", 0)])
        self.assertEqual(self.bodies(), [b"1", b"2"])
        self.assertEqual([event for event in logged if "outcome" in event], [])

    def test_waiting_elsewhere(self) -> None:
        """A message for another queue manager that has not been sent is removed from its outgoing queue."""
        self.put(b"1", b"2", queue=ELSEWHERE)
        *_, end = self.change("remove", ELSEWHERE, body="1")
        self.assertEqual(end["done"], 1)
        self.assertEqual(self.service.inspection.outgoing_queue(ELSEWHERE).messages, 1)

    def test_failure_of_the_store(self) -> None:
        """The last line counts the messages removed before the failure; the rest stays in place."""
        self.put(*(b"%d" % number for number in range(100)), delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        path = resource("queues", ORDERS, "messages/remove")
        caller.ask("POST", path, self.document({"all": True}))
        self.disk.catch_up()
        self.clock.advance(0)
        self.clock.advance(0)
        self.disk.is_broken = True
        self.disk.fail_late()
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        *_, end = answer.lines
        self.assertEqual((end["error"], end["done"]), ("MQ_ERROR_MESSAGE_STORAGE_FAILED", 64))
        self.assertIn("before that, 64 messages were removed", end["detail"])
        self.disk.is_broken = self.disk.is_slow = False
        self.assertEqual(len(self.seen()), 36)

    def test_client_disconnects(self) -> None:
        """The slice that is under way is completed, no other begins, and the audit log has the count."""
        self.put(*(b"%d" % number for number in range(100)), delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        caller.ask("POST", resource("queues", ORDERS, "messages/remove"), self.document({"all": True}))
        with capturedLogs() as logged:
            caller.hang_up()
            self.disk.is_slow = False
            self.disk.catch_up()
            self.clock.advance(0)
        self.assertEqual(len(self.seen()), 36)
        [line] = [event["line"] for event in logged if "outcome" in event]
        self.assertIn("64 messages were removed, then the client disconnected", line)

    def test_failure_after_the_client_has_disconnected(self) -> None:
        """The audit log has the failure of the last slice, and the count before it."""
        self.put(*(b"%d" % number for number in range(100)), delivery=Delivery.RECOVERABLE)
        self.disk.is_slow = True
        caller = self.caller()
        caller.ask("POST", resource("queues", ORDERS, "messages/remove"), self.document({"all": True}))
        with capturedLogs() as logged:
            caller.hang_up()
            self.disk.is_slow = False
            self.disk.fail_late()
            self.clock.advance(0)
        self.assertEqual(len(self.seen()), 100)
        [line] = [event["line"] for event in logged if "outcome" in event]
        self.assertIn("MQ_ERROR_MESSAGE_STORAGE_FAILED", line)
        self.assertIn("before that, 0 messages were removed, then the client disconnected", line)

    def test_refusals(self) -> None:
        """A selection that is missing, double or wrong is refused at once, and nothing changes."""
        self.put(b"1")
        for wanted, words in (
            ({}, "select messages"),
            ({"all": True, "where": "label"}, "select messages"),
            ({"where": "lable"}, "did you mean label?"),
            ({"lookup_ids": "7"}, "array"),
            ({"lookup_ids": [-1]}, "lookup_ids"),
            ({"everything": True}, "everything"),
            ({"body": "\ud800"}, "body has lone surrogates"),
        ):
            answer = self.refused("remove", **wanted)
            self.assertEqual(answer.status, 400)
            self.assertIn(words, answer.json["detail"])
        self.assert_refused(
            self.refused("remove", ".\\private$\\none", all=True), 404, "MQ_ERROR_QUEUE_NOT_FOUND"
        )
        self.assertEqual(self.bodies(), [b"1"])


class MoveTests(ChangeTestCase):
    """C{POST .../messages/move}."""

    def test_message_stays_as_it_is(self) -> None:
        """It has its identifier and packet in the other queue, behind what is there."""
        self.put(b"there", queue=OTHER)
        self.put(b"1", b"2", delivery=Delivery.RECOVERABLE, priority=5, label="L")
        before = {str(each.view.identifier): bytes(each.view.packet) for each in self.seen()}
        self.assertEqual(self.moved(OTHER)["done"], 2)
        found = [each for each in self.seen(OTHER) if each.view.label == "L"]
        self.assertEqual({str(each.view.identifier): bytes(each.view.packet) for each in found}, before)
        self.assertEqual([bytes(each.view.body) for each in found], [b"1", b"2"])
        self.assertEqual([each.moves for each in found], [1, 1])
        self.assertEqual(self.bodies(), [])
        self.assertEqual(self.events(), [("moved", f"to {OTHER}")] * 2)

    def test_receipt_is_acknowledged(self) -> None:
        """Its sender learns that it was received, from whichever queue."""
        admin = self.make_queue("admin")
        name = parse_format_name(f"DIRECT=OS:ALPHA{admin[1:]}")
        self.put(b"1", acknowledge=Acknowledge.POSITIVE_RECEIVE, admin_queue=name)
        self.moved(OTHER)
        self.assertEqual(self.take(OTHER), [b"1"])
        self.assertEqual(len(self.seen(admin)), 1)

    def moved(self, target: str, source: str = ORDERS) -> dict[str, Any]:
        """Move all messages; the last line."""
        body = self.document({"queue": target, "all": True})
        caller = self.caller()
        caller.ask("POST", resource("queues", source, "messages/move"), body)
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        end: dict[str, Any] = answer.lines[-1]
        return end

    def test_message_log(self) -> None:
        """A queue that logs what enters it logs what is moved into it."""
        logged = self.make_queue("logged", log=True)
        self.put(b"1", delivery=Delivery.RECOVERABLE)
        self.moved(logged)
        extent = self.run_to_end(self.service.inspection.log_extent(logged))
        self.assertEqual(extent.entries, 1)

    def test_waiting_reader(self) -> None:
        """A reader that waits on the other queue gets it."""
        reader = self.receive(queue=OTHER)
        self.put(b"1")
        self.moved(OTHER)
        self.assertEqual(reader.answer.records[0].body, b"1")

    def test_subqueue(self) -> None:
        """Into a subqueue and back its position stays."""
        self.put(b"1", b"2")
        before = [each.lookup_id for each in self.seen()]
        self.moved(f"{ORDERS};later")
        self.moved(ORDERS, f"{ORDERS};later")
        self.assertEqual([each.lookup_id for each in self.seen()], before)

    def test_refused_targets(self) -> None:
        """Unlike queues, copies, outgoing queues and demands of the target are refused; nothing is moved."""
        transactional = self.make_queue("tx", transactional=True)
        signed = self.make_queue("signed", authenticate=True)
        small = self.make_queue("small", quota=0)
        self.put(b"1")
        self.put(b"2", queue=ELSEWHERE)
        self.put(b"3", queue=ELSEWHERE, dead_letter=True, time_to_reach_queue=1)
        self.clock.advance(2)
        for source, target, words in (
            (ORDERS, transactional, "only the second is transactional"),
            (ORDERS, signed, "accepts only authenticated messages"),
            (ORDERS, small, "the quota of the queue is exceeded"),
            (ORDERS, ORDERS, "both the source and the target"),
            (ORDERS, f"{ORDERS};journal", "a journal accepts received messages only"),
            (ELSEWHERE, OTHER, "outgoing queue"),
            (DEAD_LETTERS, OTHER, "requeue --to"),
            (ORDERS, ".\\private$\\none", "none"),
        ):
            body = self.document({"queue": target, "all": True})
            answer = self.call("POST", resource("queues", source, "messages/move"), body)
            self.assertIn(words, answer.json["detail"], target)
        self.assertEqual(self.bodies(), [b"1"])


class CopyTests(ChangeTestCase):
    """C{POST .../messages/copy}."""

    def test_copies(self) -> None:
        """Each is a new message without requests of its own; the originals stay, with an event."""
        self.put(b"1", b"2", label="L", journal=True, dead_letter=True)
        *lines, end = self.change("copy", destination=OTHER, all=True)
        copies = self.seen(OTHER)
        self.assertEqual([str(each.view.identifier) for each in copies], [line["new_id"] for line in lines])
        self.assertEqual([bytes(each.view.body) for each in copies], [b"1", b"2"])
        self.assertEqual({(each.view.label, each.view.journal) for each in copies}, {("L", False)})
        self.assertEqual((self.bodies(), end["done"]), ([b"1", b"2"], 2))
        self.assertEqual([word for word, _ in self.events()], ["copied", "copied"])

    def test_into_itself(self) -> None:
        """Copies into the same queue are not copied again."""
        self.put(*(b"%d" % number for number in range(70)))
        *_, end = self.change("copy", destination=ORDERS, all=True)
        self.assertEqual((end["done"], len(self.seen())), (70, 140))

    def test_kinds(self) -> None:
        """A copy is as its local queue needs it, and as it was for another queue manager."""
        transactional = self.make_queue("tx", transactional=True)
        self.put(b"1")
        self.change("copy", destination=transactional, all=True)
        [copy] = self.seen(transactional)
        self.assertTrue(copy.view.is_transactional)
        self.change("copy", transactional, destination=ELSEWHERE, all=True)
        page = self.run_to_end(self.service.inspection.browse(ELSEWHERE))
        self.assertEqual([each.view.is_transactional for each in page.messages], [True])

    def test_refused_destination(self) -> None:
        """An unknown destination is refused, even if nothing matches."""
        self.assert_refused(
            self.refused("copy", destination=".\\private$\\none", all=True), 404, "MQ_ERROR_QUEUE_NOT_FOUND"
        )


class RequeueTests(ChangeTestCase):
    """C{POST .../messages/requeue} of a dead-letter queue."""

    def setUp(self) -> None:
        super().setUp()
        self.put(b"1", b"2", queue=ELSEWHERE, dead_letter=True, time_to_reach_queue=1, label="L")
        self.clock.advance(2)

    def test_requeue_all(self) -> None:
        """They are sent to where they were for, in order, and leave the dead-letter queue."""
        *lines, end = self.change("requeue", DEAD_LETTERS, all=True)
        self.assertEqual((end["done"], self.bodies(DEAD_LETTERS)), (2, []))
        page = self.run_to_end(self.service.inspection.browse(ELSEWHERE))
        self.assertEqual([bytes(each.view.body) for each in page.messages], [b"1", b"2"])
        self.assertEqual(
            [str(each.view.identifier) for each in page.messages], [each["new_id"] for each in lines]
        )
        self.assertEqual([word for word, _ in self.events()], ["expired", "expired", "requeued", "requeued"])

    def test_without_the_rights_of_its_sender(self) -> None:
        """What another queue manager's sender had no right to send is not sent with others by accident."""
        to, place = f"OS:ALPHA{ORDERS[1:]}", (7, 1, 0)
        packet = transactional(
            b"denied", place, source=BETA, destination=to, user_flags=NEGATIVE, is_transactional=False
        )
        model, admission = self.service.model, Admission()
        refused = UserMessageView(packet), MessageClass.NACK_ACCESS_DENIED, self.clock.now()
        self.assertTrue(model.dead_letter_refused(*refused, admission.copies, admission.changes))
        self.successResultOf(self.disk.commit(admission.changes))
        model.commit(admission, self.clock.now())
        for selection in ({"all": True, "dry_run": True}, {"where": "priority == `3`"}, {"all": True}):
            *lines, end = self.change("requeue", DEAD_LETTERS, **selection)
            [error] = [line for line in lines if "error" in line]
            self.assertEqual((error["error"], end["failed"]), ("MQ_ERROR_ACCESS_DENIED", 1))
        self.assertEqual((self.bodies(DEAD_LETTERS), self.bodies()), ([b"denied"], []))
        *_, end = self.change("requeue", DEAD_LETTERS, where="class_name == 'MQMSG_CLASS_NACK_ACCESS_DENIED'")
        self.assertEqual((end["done"], self.bodies(DEAD_LETTERS), self.bodies()), (1, [], [b"denied"]))

    def test_to_another_queue(self) -> None:
        """Matching messages are sent to another destination, which may be transactional."""
        transactional = self.make_queue("tx", transactional=True)
        *_, end = self.change("requeue", DEAD_LETTERS, where="body == '2'", to=transactional)
        self.assertEqual(
            (end["done"], self.bodies(transactional), self.bodies(DEAD_LETTERS)), (1, [b"2"], [b"1"])
        )

    def test_edited(self) -> None:
        """One is replaced by what an edited document says; keys of its journey are ignored."""
        dead_letter = self.seen(DEAD_LETTERS)[0].lookup_id
        shown = self.call("GET", f"{resource('queues', DEAD_LETTERS, 'messages')}/{dead_letter}").json
        document = {**shown, "body": "mended", "priority": 7, "reason": "none"}
        self.change("requeue", DEAD_LETTERS, lookup_ids=[dead_letter], to=OTHER, message=document)
        [sent] = self.seen(OTHER)
        self.assertEqual((bytes(sent.view.body), sent.view.priority, sent.view.label), (b"mended", 7, "L"))
        wrong = self.refused("requeue", DEAD_LETTERS, lookup_ids=[dead_letter], message={"prioritty": 1})
        self.assertEqual(wrong.status, 400)
        self.assertIn("'prioritty'", wrong.json["detail"])

    def test_some_are_refused(self) -> None:
        """A dead letter that cannot be sent stays, is named, and holds up none of the others."""
        gone = self.make_queue("gone", quota=0)
        *lines, end = self.change("requeue", DEAD_LETTERS, all=True, to=gone)
        self.assertEqual({line["error"] for line in lines}, {"MQ_ERROR_INSUFFICIENT_RESOURCES"})
        self.assertEqual((end["done"], end["failed"]), (0, 2))
        self.assertEqual(self.bodies(DEAD_LETTERS), [b"1", b"2"])

    def test_other_queues(self) -> None:
        """Only a dead-letter queue has dead letters."""
        answer = self.refused("requeue", all=True)
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "has no dead letters")


class EditedCopyTests(ChangeTestCase):
    """C{POST /v1/queues/PATH/messages/copy} with a document."""

    def test_edited(self) -> None:
        """The copy of one message is what the document says; the message itself does not change."""
        self.put(b"1", label="L")
        first = self.seen()[0].lookup_id
        shown = self.call("GET", f"{resource('queues', ORDERS, 'messages')}/{first}").json
        document = {**shown, "body": "other", "priority": 7}
        *_, end = self.change("copy", lookup_ids=[first], destination=OTHER, message=document)
        self.assertEqual((end["done"], end["failed"]), (1, 0))
        [sent] = self.seen(OTHER)
        self.assertEqual((bytes(sent.view.body), sent.view.priority, sent.view.label), (b"other", 7, "L"))
        self.assertEqual(self.bodies(), [b"1"])

    def test_of_several(self) -> None:
        """A document cannot be the copy of two messages, and nothing is sent."""
        self.put(b"1", b"2")
        both = [each.lookup_id for each in self.seen()]
        answer = self.refused("copy", lookup_ids=both, destination=OTHER, message={"body": "x"})
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "a copy of one message")
        self.assertEqual(self.bodies(OTHER), [])


class GroupTests(ChangeTestCase):
    """C{GET /v1/deadletters/groups}."""

    def groups(self, **parameters: Any) -> list[dict[str, Any]]:
        """The lines."""
        caller = self.caller()
        caller.ask("GET", "/v1/deadletters/groups", None, **parameters)
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        return answer.lines

    def test_counts(self) -> None:
        """Dead letters of both queues are counted by class and queue, the largest group first."""
        asked = {"dead_letter": True, "time_to_reach_queue": 1}
        self.put(b"1", queue="DIRECT=OS:GAMMA\\private$\\q", **asked)
        self.put(b"1", b"2", queue=ELSEWHERE, **asked)
        self.put(b"3", queue=ELSEWHERE, transactional=True, delivery=Delivery.RECOVERABLE, **asked)
        self.clock.advance(2)
        first, second, end = self.groups(by="class,queue")
        self.assertEqual(
            (first["destination_queue"], first["messages"], second["messages"]), (ELSEWHERE, 3, 1)
        )
        self.assertEqual(first["class_name"], "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT")
        self.assertEqual((end["looked_at"], end["groups"]), (4, 2))
        [only, _] = self.groups(by="reason", where=f"destination_queue == '{ELSEWHERE}'")
        self.assertEqual((only["reason"], only["messages"]), (None, 3))

    def test_refusals(self) -> None:
        """An unknown key is refused."""
        answer = self.call("GET", "/v1/deadletters/groups", None, by="color")
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "color")
