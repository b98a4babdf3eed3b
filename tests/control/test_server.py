"""The control API's resources that carry no messages, and what it refuses everywhere."""

from __future__ import annotations

import json
import sys

import attrs

from msmq.control.protocol.records import CONTENT_TYPE, DEEPEST, LENGTHS
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.messages.json_records import json_record
from tests.control.support import ORDERS, Answer, ControlTestCase, resource


class ResourceTests(ControlTestCase):
    """Asking for what there is."""

    def test_status(self) -> None:
        """The status is an object with the values of the queue manager."""
        answer = self.call("GET", "/v1/status")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertEqual(answer.json, json_record(self.service.inspection.status()))

    def test_queues(self) -> None:
        """The queues are an array."""
        [queue] = self.call("GET", "/v1/queues").json
        self.assertEqual(queue["path"], ORDERS)

    def test_many_queues(self) -> None:
        """A long list is one array too, though it is written in slices."""
        for number in range(250):
            self.run_to_end(self.service.create_queue(f".\\private$\\q{number:03}"))
        answer = self.call("GET", "/v1/queues")
        self.assertTrue(answer.is_whole)
        self.assertEqual([queue["path"][-4:] for queue in answer.json[1:]], [f"q{n:03}" for n in range(250)])

    def test_a_queue_is_deleted_while_they_are_listed(self) -> None:
        """It is left out of the slices that follow, and the queues behind it are listed."""
        for number in range(3):
            self.run_to_end(self.service.create_queue(f".\\private$\\q{number}"))
        queues = self.service.inspection.each_queue()
        self.assertEqual(next(queues).path, ORDERS)
        self.run_to_end(self.service.delete_queue(".\\private$\\q1"))
        self.assertEqual([queue.path[-2:] for queue in queues], ["q0", "q2"])

    def test_one_queue_by_path(self) -> None:
        """A queue is found by its path, encoded as one segment."""
        answer = self.call("GET", "/v1/queues/.%5Cprivate$%5Corders")
        self.assertEqual(answer.json["path"], ORDERS)

    def test_one_queue_by_format_name(self) -> None:
        """A queue is found by its format name too."""
        name = self.service.inspection.queue(ORDERS).format_name.replace("\\", "%5C")
        self.assertEqual(self.call("GET", f"/v1/queues/{name}").json["path"], ORDERS)

    def test_outgoing_and_sessions_are_arrays(self) -> None:
        """Where no message was sent, none is in transit."""
        self.assertEqual(self.call("GET", "/v1/outgoing").json, [])
        self.assertEqual(self.call("GET", "/v1/sessions").json, [])

    def test_outgoing_queue_is_listed(self) -> None:
        """Messages to other queue managers appear as an outgoing queue."""
        name = "DIRECT=OS:nowhere\\private$\\q"
        self.call("POST", "/v1/messages", b"x", destination=name)
        [queue] = self.call("GET", "/v1/outgoing").json
        self.assertEqual(queue["format_name"].lower(), name.lower())

    def test_one_outgoing_queue(self) -> None:
        """An outgoing queue is shown, paused and resumed under its format name."""
        name = "DIRECT=OS:nowhere\\private$\\q"
        self.call("POST", "/v1/messages", b"x", destination=name)
        shown = self.call("GET", resource("outgoing", name)).json
        self.assertEqual((shown["format_name"].lower(), shown["messages"]), (name.lower(), 1))
        paused = self.call("POST", resource("outgoing", name, "pause")).json
        self.assertEqual(paused["state"], "ONHOLD")
        self.clock.advance(60)
        self.assertEqual(self.call("GET", resource("outgoing", name)).json["state"], "ONHOLD")
        resumed = self.call("POST", resource("outgoing", name, "resume")).json
        self.assertNotEqual(resumed["state"], "ONHOLD")

    def test_missing_outgoing_queue(self) -> None:
        """An unknown outgoing queue, and the name of another kind of queue, are refused."""
        missing = "DIRECT=OS:nowhere\\private$\\q"
        for name, status, error in (
            (missing, 404, "MQ_ERROR_QUEUE_NOT_FOUND"),
            (ORDERS, 400, "MQ_ERROR_ILLEGAL_OPERATION"),
            ("DIRECT=nonsense", 400, "MQ_ERROR_ILLEGAL_FORMATNAME"),
        ):
            for method, action in (("GET", ""), ("POST", "pause"), ("POST", "resume")):
                with self.subTest(name=name, action=action):
                    if (name, action) == (missing, "pause"):
                        # A name may be paused before anything is sent to it.
                        continue
                    answer = self.call(method, resource("outgoing", name, action))
                    self.assert_refused(answer, status, error)

    def test_connection_serves_one_request_after_another(self) -> None:
        """A connection is kept, and its requests are answered in their order."""
        caller = self.caller()
        caller.feed(b"GET /v1/outgoing HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertEqual(caller.transport.value().count(b"HTTP/1.1 200 OK"), 2)


class QueueTests(ControlTestCase):
    """Making and removing queues."""

    def test_create(self) -> None:
        """A new queue has the properties that were asked for, and is answered with all of them."""
        wanted = {
            "path": ".\\private$\\new",
            "transactional": True,
            "journal": True,
            "quota": 100,
            "journal_quota": 50,
            "label": "News",
            "privacy": "body",
        }
        answer = self.call("POST", "/v1/queues", json.dumps(wanted).encode())
        self.assertEqual(answer.status, 201)
        self.assertEqual({**answer.json, **wanted}, answer.json)
        self.assertEqual(json_record(self.service.inspection.queue(".\\private$\\new")), answer.json)

    def test_existing_queue(self) -> None:
        """A queue that exists is a conflict."""
        answer = self.call("POST", "/v1/queues", json.dumps({"path": ORDERS}).encode())
        self.assert_refused(answer, 409, "MQ_ERROR_QUEUE_EXISTS", "orders")

    def test_malformed_path(self) -> None:
        """An invalid path is refused with the error of the documents."""
        answer = self.call("POST", "/v1/queues", b'{"path": "\\\\\\\\"}')
        self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME")

    def test_public_queue_needs_a_directory(self) -> None:
        """Without a directory there are no public queues."""
        answer = self.call("POST", "/v1/queues", b'{"path": ".\\\\public"}')
        self.assert_refused(answer, 503, "MQ_ERROR_NO_DS")

    def test_body_that_is_no_object(self) -> None:
        """Anything but a JSON object is refused, and says why."""
        for body in (b"[]", b"{", b"\xff", b"7"):
            with self.subTest(body=body):
                answer = self.call("POST", "/v1/queues", body)
                self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "the request body")

    def test_missing_path_and_unknown_key(self) -> None:
        """The path must be there, and an unknown key is named."""
        self.assert_refused(self.call("POST", "/v1/queues"), 400, "MQ_ERROR_INVALID_PARAMETER", "path")
        answer = self.call("POST", "/v1/queues", b'{"path": "x", "colour": "red"}')
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'colour'")

    def test_delete(self) -> None:
        """A deleted queue is gone."""
        answer = self.call("DELETE", "/v1/queues/.%5Cprivate$%5Corders")
        self.assertEqual((answer.status, answer.json), (200, {"deleted": ORDERS}))
        self.assertEqual(self.service.inspection.queues(), [])

    def set(self, properties: object) -> Answer:
        """Change properties of the queue."""
        return self.call("PATCH", "/v1/queues/.%5Cprivate$%5Corders", json.dumps(properties).encode())

    def test_set(self) -> None:
        """The properties in the body are changed; a null quota removes the limit; the answer has all
        properties.
        """
        answer = self.set({"label": "Orders", "quota": 10, "journal": True, "privacy": "none"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json, json_record(self.service.inspection.queue(ORDERS)))
        self.assertEqual((answer.json["label"], answer.json["quota"]), ("Orders", 10))
        self.assertEqual((answer.json["journal"], answer.json["privacy"]), (True, "none"))
        answer = self.set({"quota": None, "journal": False})
        self.assertEqual((answer.json["quota"], answer.json["journal"]), (None, False))
        self.assertEqual(answer.json["label"], "Orders")

    def test_set_refused(self) -> None:
        """Unknown, unchangeable and invalid properties are refused; nothing is changed then."""
        before = self.service.inspection.queue(ORDERS)
        invalid = "MQ_ERROR_INVALID_PARAMETER"
        self.assert_refused(self.set({"label": "x", "lable": "y"}), 400, invalid, "lable")
        self.assert_refused(self.set({"label": None}), 400, invalid, "label")
        self.assert_refused(self.set({"quota": "much"}), 400, invalid, "quota")
        self.assert_refused(
            self.set({"label": "x", "transactional": True}),
            400,
            "MQ_ERROR_PROPERTY_NOTALLOWED",
            "transactional",
        )
        self.assert_refused(self.set({"privacy": "full"}), 400, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE", "full")
        self.assertEqual(self.service.inspection.queue(ORDERS), before)

    def test_purge(self) -> None:
        """The messages are gone, and the answer says how many."""
        self.put(b"1", b"2", b"3")
        answer = self.call("POST", "/v1/queues/.%5Cprivate$%5Corders/purge")
        self.assertEqual((answer.status, answer.json), (200, {"purged": 3}))
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    def test_missing_queue(self) -> None:
        """A request for an unknown queue is answered with 404, for any method."""
        for method, rest in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/purge")):
            with self.subTest(method=method):
                answer = self.call(method, f"/v1/queues/.%5Cprivate$%5Cmissing{rest}")
                self.assert_refused(answer, 404, "MQ_ERROR_QUEUE_NOT_FOUND", "missing")


class RefusalTests(ControlTestCase):
    """Requests that the API does not know."""

    limits = attrs.evolve(ControlLimits(), request_body=1000, document=100)

    def test_unknown_resource(self) -> None:
        """A path that leads nowhere is named."""
        for path in ("/", "/v1", "/v1/nothing", "/v2/status", "/v1/status/"):
            with self.subTest(path=path):
                self.assert_refused(self.call("GET", path), 404, "MQ_ERROR_INVALID_PARAMETER", path)

    def test_unknown_method(self) -> None:
        """A method that a resource does not have is refused with the list of its methods."""
        answer = self.call("PUT", "/v1/queues")
        self.assert_refused(answer, 405, "MQ_ERROR_ILLEGAL_OPERATION", "PUT")
        self.assertEqual(answer.headers["allow"], "GET, HEAD, POST")

    def test_unknown_parameter(self) -> None:
        """An unknown parameter is refused, so that a misspelt one is noticed."""
        answer = self.call("GET", "/v1/status", verbose=1)
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "'verbose'")

    def test_parameter_given_twice(self) -> None:
        """A parameter may be there once; a second value is refused."""
        answer = self.call("GET", "/v1/messages?queue=a&queue=b")
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "queue", "2 times")

    def test_parameter_that_is_not_utf_8(self) -> None:
        """Names travel as UTF-8 and as nothing else."""
        answer = self.call("GET", "/v1/messages?queue=%FF")
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "queue", "UTF-8")

    def test_path_that_is_not_utf_8(self) -> None:
        """The same holds for the path, and the host that the caller thinks this is does not matter."""
        answer = self.call("GET", "/v1/messages/%ff")
        self.assert_refused(answer, 400, "MQ_ERROR_INVALID_PARAMETER", "path", "UTF-8")
        for host in (b"\xff", b"a..b", b"x" * 300, b"", b"[", b"\xc3\xa9:1:2"):
            caller = self.caller()
            caller.feed(b"GET /v1/status HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
            self.assertEqual((host, caller.answer.status), (host, 200))
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_headers_that_are_not_utf_8(self) -> None:
        """A header with other bytes is one without a meaning; the request is answered."""
        for path, name in (("status", b"Content-Type"), ("queues", b"Accept"), ("send", b"Upgrade")):
            caller = self.caller()
            caller.feed(f"GET /v1/{path} HTTP/1.1\r\n".encode() + name + b": \xfb\xff\r\n\r\n")
            self.assertEqual(caller.answer.status, 405 if path == "send" else 200, name)
            self.assertTrue(caller.answer.is_whole)

    def test_long_body(self) -> None:
        """A body over the limit is refused by its size, for any content, in any chunks."""
        answer = self.call("POST", "/v1/messages", bytes(1001), destination=ORDERS)
        self.assert_refused(answer, 413, "MQ_ERROR_INSUFFICIENT_RESOURCES", "1000 bytes")
        caller = self.caller()
        caller.feed(
            b"POST /v1/messages?destination=x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(11):
            caller.feed(b"64\r\n" + bytes(100) + b"\r\n")
        caller.feed(b"0\r\n\r\n")
        self.assert_refused(caller.answer, 413, "MQ_ERROR_INSUFFICIENT_RESOURCES", "1000 bytes")
        self.assertEqual(self.bodies(), [])

    def test_long_document(self) -> None:
        """JSON has a limit of its own."""
        answer = self.call("POST", "/v1/queues", b" " * 101)
        self.assert_refused(answer, 413, "MQ_ERROR_INSUFFICIENT_RESOURCES", "100 bytes")

    def test_fault_of_ours_is_logged_and_not_shown(self) -> None:
        """An internal error is reported without its details, and the log has them."""

        def broken() -> dict[str, object]:
            raise ZeroDivisionError("secret")

        self.patch(self.service.inspection, "status", broken)
        answer = self.call("GET", "/v1/status")
        self.assert_refused(answer, 500, "MQ_ERROR", "log")
        self.assertNotIn("secret", answer.body.decode())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_garbage_is_no_request(self) -> None:
        """Bytes that are no HTTP close their connection, and nothing else notices."""
        caller = self.caller()
        caller.feed(b"\x10\x00\x03\x00LIOR\r\n\r\n")
        self.assertTrue(caller.transport.disconnecting)
        self.assertEqual(self.call("GET", "/v1/status").status, 200)


class DeepJsonTests(ControlTestCase):
    """JSON of callers that is nested deeply."""

    def test_deep_json(self) -> None:
        """JSON of any depth is refused with a reason, in a body and in the header of a record."""
        for depth in (95, *range(sys.getrecursionlimit() - 150, sys.getrecursionlimit())):
            deep = b'{"path": %s%s}' % (b"[" * depth, b"]" * depth)
            answers = [self.call("POST", "/v1/queues", deep)]
            deep = b'{"destination": "q", "label": ' + deep.partition(b" ")[2]
            caller = self.caller()
            stream = LENGTHS.pack(len(deep), 0) + deep
            caller.ask("POST", "/v1/send", stream, {"Content-Type": CONTENT_TYPE})
            answers.append(caller.answer)
            for answer in answers:
                self.assertEqual((answer.status, answer.json["error"]), (400, "MQ_ERROR_INVALID_PARAMETER"))
                if depth > DEEPEST:
                    self.assertIn("nested more than 100 levels deep", answer.json["detail"])
