"""Downloads of messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from twisted.internet.testing import StringTransport

from msmq.control.authentication.roles import Role
from msmq.decoding.captures import decode
from msmq.errors import LocalProtocolError
from msmq.web.console.pages import message_export
from tests.control.callers.test_roles import TOKENS
from tests.control.support import Answer, slow_comparisons
from tests.web.console.test_changes import FORM, ChangeTestCase
from tests.web.support import ORDERS

EXPORT = f"/messages/export?queue={quote(ORDERS)}"


class MessageExportTests(ChangeTestCase):
    """Files that a browser saves; the queue has three messages."""

    def begin(self, path: str, selected: Sequence[int] = ()) -> StringTransport:
        """Request a download as a reader; with selected messages, by a form."""
        body = urlencode([("to", ""), *(("id", each) for each in selected)]).encode() if selected else b""
        protocol, transport = self.connect()
        headers = {**self.headers(Role.READER), "Host": "127.0.0.2:15801", "Content-Type": FORM}
        lines = [f"{'POST' if selected else 'GET'} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        protocol.dataReceived("\r\n".join(lines).encode() + body)
        return transport

    def download(self, path: str, selected: Sequence[int] = ()) -> Answer:
        """A whole download."""
        transport = self.begin(path, selected)
        self.clock.advance(0)
        return Answer(transport.value())

    def lines(self, answer: Answer) -> list[dict[str, Any]]:
        """The messages in a file of JSON lines."""
        self.assertEqual((answer.status, answer.is_whole), (200, True))
        return [json.loads(line) for line in answer.body.decode().splitlines()]

    def test_json_lines(self) -> None:
        """All messages of a queue, those of several pages of the store too, with a name for the file."""
        self.put(ORDERS, *(b"%d" % number for number in range(200)))
        answer = self.download(EXPORT)
        bodies = [line["body"] for line in self.lines(answer)]
        self.assertEqual(bodies, ["one", "two", "three", *(str(number) for number in range(200))])
        self.assertEqual(answer.headers["Content-Disposition"], 'attachment; filename="private-orders.jsonl"')

    def test_packets(self) -> None:
        """The packets of all messages follow each other, as msmq decode reads them."""
        answer = self.download(f"{EXPORT}&format=packets")
        bodies = [record["MessagePropertiesHeader"]["MessageBody"] for record in self.packets(answer)]
        self.assertEqual(bodies, ["one", "two", "three"])

    def packets(self, answer: Answer) -> list[Any]:
        """The packets in a file."""
        self.assertEqual((answer.status, answer.is_whole), (200, True))
        return list(decode(answer.body))

    def test_search(self) -> None:
        """Only the messages that the search finds are exported."""
        self.assertEqual(
            [line["body"] for line in self.lines(self.download(f"{EXPORT}&body=o"))], ["one", "two"]
        )
        where = quote("body == 'three'")
        self.assertEqual(
            [line["body"] for line in self.lines(self.download(f"{EXPORT}&where={where}"))], ["three"]
        )

    def test_selected(self) -> None:
        """The selected messages are exported in the order of the queue's list."""
        first, _, third = self.lookup_ids()
        answer = self.download(f"{EXPORT}&where=&body=", [first, third])
        self.assertEqual([line["body"] for line in self.lines(answer)], ["one", "three"])
        answer = self.download(f"{EXPORT}&format=packets", [third])
        self.assertEqual(len(self.packets(answer)), 1)

    def test_gone(self) -> None:
        """If a selected message was received meanwhile, nothing is exported, and the page says which."""
        first, second, _ = self.lookup_ids()
        self.run_now(self.alpha.service.receive(ORDERS))
        answer = self.download(EXPORT, [second, first])
        self.assertEqual(answer.status, 404)
        self.assertIn(f"message {first} is there no more", answer.body.decode())
        self.assertNotIn("Content-Disposition", answer.headers)

    def test_failure(self) -> None:
        """A download that fails midway is cut off, so that the browser does not take it for a whole file."""
        self.put(ORDERS, *(b"%d" % number for number in range(1000)))
        transport = self.begin(EXPORT)
        assert transport.producer is not None
        transport.producer.pauseProducing()
        self.assertIn(b"HTTP/1.1 200", transport.value())
        self.run_now(self.alpha.service.delete_queue(ORDERS))
        self.clock.advance(2)
        self.assertTrue(transport.disconnected)

    def test_internal_error(self) -> None:
        """So is one that ends with an error of the server itself: no page of it is appended to the file."""
        self.put(ORDERS, *(b"%d" % number for number in range(200)))
        transport = self.begin(EXPORT)
        assert transport.producer is not None
        transport.producer.pauseProducing()
        self.patch(message_export, "PAGE", -1)
        self.clock.advance(2)
        self.assertEqual(len(self.flushLoggedErrors(LocalProtocolError)), 1)
        self.assertTrue(transport.disconnected)
        self.assertNotIn(b"<html", transport.value())

    def test_revoked_token(self) -> None:
        """A download ends with its token: the rest of the messages is not shown."""
        self.put(ORDERS, *(b"%d" % number for number in range(200)))
        transport = self.begin(EXPORT)
        assert transport.producer is not None
        transport.producer.pauseProducing()
        valid = self.token_file.read_text()
        self.token_file.write_text(valid.replace(TOKENS[Role.READER], TOKENS[Role.READER][::-1]))
        self.clock.advance(2)
        self.assertFalse(b'"199"' in transport.value())
        self.assertTrue(transport.disconnected)

    def test_revoked_token_of_a_slow_search(self) -> None:
        """A download and a page end with their token also while comparisons of one page of the store last."""
        slow_comparisons(self, self.clock)
        where = f"&where={quote('body_size > `0`')}"
        export, page = self.begin(EXPORT + where), self.begin(f"/messages?queue={quote(ORDERS)}{where}")
        valid = self.token_file.read_text()
        self.token_file.write_text(valid.replace(TOKENS[Role.READER], TOKENS[Role.READER][::-1]))
        for _ in range(20):
            self.clock.advance(1)
        self.assertNotIn(b"two", export.value())
        self.assertTrue(export.disconnected)
        self.assertEqual(Answer(page.value()).status, 403)

    def test_later_messages(self) -> None:
        """A browser that is behind gets the rest when it goes on, without messages that arrived meanwhile."""
        self.put(ORDERS, *(b"%d" % number for number in range(200)))
        transport = self.begin(EXPORT)
        assert transport.producer is not None
        transport.producer.pauseProducing()
        self.put(ORDERS, b"late")
        self.clock.advance(2)
        self.assertNotIn(b'"199"', transport.value())
        transport.producer.resumeProducing()
        self.clock.advance(2)
        found = [line["body"] for line in self.lines(Answer(transport.value()))]
        self.assertEqual((len(found), found[-1]), (203, "199"))

    def test_refused(self) -> None:
        """A queue that does not exist, another format or a wrong expression is refused before a download."""
        for path, text in (
            (EXPORT.replace("orders", "absent"), "MQ_ERROR_QUEUE_NOT_FOUND"),
            (f"{EXPORT}&format=xml", "is not one of json, packets"),
            (f"{EXPORT}&where=%5B", "where"),
        ):
            answer = self.download(path)
            self.assertGreaterEqual(answer.status, 400, path)
            self.assertIn(text, answer.body.decode(), path)

    def test_hostile_name(self) -> None:
        """The name of a queue does not change the header with the name of the file."""
        path = self.make_queue("a'é.exe")
        answer = self.download(f"/messages/export?queue={quote(path)}")
        self.assertEqual(answer.headers["Content-Disposition"], 'attachment; filename="private-a-exe.jsonl"')
