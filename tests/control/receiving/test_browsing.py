"""Looking at the messages of a queue through the control API: pages, filters, and single messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from twisted.internet.address import IPv4Address

from msmq.control.server.resources.message_filter import MessageFilter
from msmq.manager.applications.targets import own_queue
from msmq.queues.arriving.message import Delivery
from msmq.structures.status import MQError
from tests.control.support import ORDERS, Caller, ControlTestCase, resource, slow_comparisons

MESSAGES = resource("queues", ORDERS, "messages")


class BrowsingTestCase(ControlTestCase):
    """Browses, and gives what came."""

    def browse(self, path: str = MESSAGES, **parameters: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The messages, and how it ended."""
        caller = self.caller()
        caller.ask("GET", f"{path}?{urlencode(parameters)}")
        while not (answer := caller.answer).is_whole:
            self.clock.advance(0)
        self.assertEqual(answer.status, 200, answer.body)
        *messages, end = map(json.loads, answer.body.splitlines())
        return messages, end

    def damage(self, index: int) -> int:
        """Damage one of the messages; returns its LookupIdentifier."""
        positions = list(own_queue(self.service.model, ORDERS).positions.values())
        for position in positions:
            # As after a start, or when there are more than memory has room for.
            position.view = None
        lookup_id: int = positions[index].lookup_id
        self.disk.damaged.add(lookup_id)
        return lookup_id

    def found(self, **parameters: Any) -> list[str]:
        """The bodies of what was found."""
        return [message["body"] for message in self.browse(**parameters)[0]]


class SlowComparisonTests(BrowsingTestCase):
    """Expressions that keep the server busy."""

    def setUp(self) -> None:
        super().setUp()
        slow_comparisons(self, self.clock)
        self.put(b"1", b"2", b"3")

    def asking(self, host: str) -> Caller:
        """A caller that compares all messages, from an address."""
        caller = Caller(self.site, self.clock, IPv4Address("TCP", host, 50000))
        caller.ask("GET", MESSAGES, where="body_size > `0`")
        return caller

    def bodies_of(self, *callers: Caller) -> list[str]:
        """The bodies that they have received."""
        return [line["body"] for caller in callers for line in caller.answer.lines if "body" in line]

    def test_share_of_one_caller(self) -> None:
        """After a slow comparison a caller waits three times as long, in all its requests; others do not."""
        first, second = self.asking("192.0.2.1"), self.asking("192.0.2.1")
        self.assertEqual(self.bodies_of(first, second), ["1"])
        other = self.asking("192.0.2.2")
        self.assertEqual(self.bodies_of(other), ["1"])
        self.clock.advance(0.5)
        self.assertEqual(self.bodies_of(first, second), ["1"])
        for _ in range(20):
            self.clock.advance(1)
        for caller in (first, second, other):
            self.assertTrue(caller.answer.is_whole)
            self.assertEqual(self.bodies_of(caller), ["1", "2", "3"])
            self.assertEqual(caller.answer.lines[-1]["end"], "queue")

    def test_message_that_cannot_be_read(self) -> None:
        """It is named once, also if the search rests at the message after it."""
        self.run_to_end(self.service.purge_queue(ORDERS))
        self.put(b"1", b"2", b"3", delivery=Delivery.RECOVERABLE)
        bad = self.damage(0)
        caller = self.asking("192.0.2.1")
        for _ in range(10):
            self.clock.advance(1)
        named = [line["lookup_id"] for line in caller.answer.lines if "unreadable" in line]
        self.assertEqual((named, self.bodies_of(caller)), ([bad], ["2", "3"]))

    def test_progress(self) -> None:
        """A search that rests reports its progress."""
        caller = self.asking("192.0.2.1")
        for _ in range(10):
            self.clock.advance(1)
        self.assertIn("looked_at", [key for line in caller.answer.lines[:-1] for key in line])


class PageTests(BrowsingTestCase):
    """Any position of a queue, however long that is."""

    def test_pages_of_a_long_queue(self) -> None:
        """Page after page shows each message once, in order, beyond what one peek shows; all stay there."""
        self.put(*(b"%d" % number for number in range(10_200)))
        seen: list[str] = []
        after: dict[str, Any] = {}
        while True:
            messages, end = self.browse(limit=3000, bodies="true", **after)
            seen += [message["body"] for message in messages]
            after = {"after": end["after"]}
            if end["end"] == "queue":
                break
        self.assertEqual(seen, [str(number) for number in range(10_200)])
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 10_200)

    def test_slow_reader(self) -> None:
        """A reader that does not read gets two lines more at most, and everything when it reads again."""
        self.put(*(b"%d" % number for number in range(200)))
        caller = self.caller()
        write = caller.transport.writeSequence

        def fill(data: Iterable[bytes]) -> None:
            write(data)
            if is_full:
                caller.pause()

        is_full = True
        self.patch(caller.transport, "writeSequence", fill)
        caller.ask("GET", f"{MESSAGES}?limit=200")
        for _ in range(5):
            self.clock.advance(0.5)
        self.assertLessEqual(len(caller.answer.lines), 2)
        is_full = False
        caller.resume()
        while not caller.answer.is_whole:
            self.clock.advance(0)
        *messages, end = caller.answer.lines
        self.assertEqual([message["body"] for message in messages], [str(number) for number in range(200)])
        self.assertEqual((end["end"], end["looked_at"]), ("limit", 200))

    def test_priorities(self) -> None:
        """The order is that of receiving, and a page may begin in the middle of a priority."""
        for priority, body in ((0, b"last"), (7, b"first"), (3, b"middle"), (7, b"second")):
            self.put(body, priority=priority)
        [_, second], end = self.browse(limit=2)
        self.assertEqual((end["end"], end["found"], end["after"]), ("limit", 2, second["lookup_id"]))
        self.assertEqual(self.found(after=end["after"]), ["middle", "last"])

    def test_keys(self) -> None:
        """A message has the keys of every listing; its body only if it is wanted."""
        self.put(b"<a>7</a>", label="L")
        [message], end = self.browse(decode="true")
        self.assertEqual((message["label"], message["body"]), ("L", "<a>7</a>"))
        self.assertEqual(message["decoded"]["value"], {"a": "7"})
        self.assertEqual(end, {"end": "queue", "looked_at": 1, "found": 1, "after": message["lookup_id"]})
        [message], _ = self.browse(bodies="false")
        self.assertNotIn("body", message)

    def test_large_extension(self) -> None:
        """Headers in a large extension are not decoded, as a large body is not: others would wait for it."""
        headers = b'{"rbs2-msg-id": "%s"}'
        self.put(b"{}", extension=headers % (b"7" * 1000))
        self.put(b"{}", extension=headers % (b"7" * 0x10000))
        [small, large], _ = self.browse(decode="true")
        self.assertEqual(
            (small["decoded"]["headers"], small["decode_error"]), ({"rbs2-msg-id": "7" * 1000}, None)
        )
        self.assertEqual(
            (large["decoded"], large["decode_error"]), (None, "an extension of more than 65536 bytes")
        )

    def test_waiting_elsewhere(self) -> None:
        """Messages pending for another queue manager are shown by the name of the outgoing queue."""
        name = "DIRECT=OS:BETA\\private$\\q"
        self.put(b"1", b"2", queue=name)
        messages, _ = self.browse(resource("queues", name, "messages"))
        self.assertEqual([message["body"] for message in messages], ["1", "2"])

    def test_subqueue_that_is_not_there(self) -> None:
        """It is empty, and looking makes none."""
        self.assertEqual(self.browse(resource("queues", f"{ORDERS};aside", "messages"))[0], [])
        self.assertEqual(self.service.inspection.queue(ORDERS).subqueues, [])

    def test_message_that_cannot_be_read(self) -> None:
        """It is named with the reason, and hides none of the others."""
        self.put(b"1", b"2", b"3", delivery=Delivery.RECOVERABLE)
        bad = self.damage(1)
        messages, end = self.browse()
        self.assertEqual([message.get("body") for message in messages], ["1", None, "3"])
        self.assertEqual(messages[1], {"lookup_id": bad, "unreadable": "checksum of page 7"})
        self.assertEqual(end["end"], "queue")

    def test_limit_before_a_message_that_cannot_be_read(self) -> None:
        """It is in the answer that goes on after the limit, and not in both."""
        self.put(b"1", b"2", b"3", delivery=Delivery.RECOVERABLE)
        self.damage(1)
        messages, end = self.browse(limit=1)
        self.assertEqual([message.get("body") for message in messages], ["1"])
        messages, _ = self.browse(limit=5, after=end["after"])
        self.assertEqual([message.get("body") for message in messages], [None, "3"])

    def test_refusals(self) -> None:
        """A queue that is not there and parameters that mean nothing have a status and a reason."""
        for path, parameters, status, words in (
            (resource("queues", ".\\private$\\none", "messages"), {}, 404, "none"),
            (MESSAGES, {"limit": "many"}, 400, "limit"),
            (MESSAGES, {"nonsense": "1"}, 400, "nonsense"),
            (MESSAGES, {"where": "prioritty > `3`"}, 400, "'prioritty'; did you mean priority?"),
            (MESSAGES, {"where": "((("}, 400, "JMESPath"),
        ):
            answer = self.call("GET", path, None, **parameters)
            self.assertEqual(answer.status, status)
            self.assertIn(words, answer.json["detail"])

    def test_caller_goes_away(self) -> None:
        """The search for a caller that has disconnected ends."""
        self.put(*(b"%d" % number for number in range(500)))
        caller = self.caller()
        caller.ask("GET", MESSAGES, None, where="label == 'none'")
        caller.hang_up()
        self.clock.advance(0)
        soon = self.clock.reactor.seconds() + 1
        self.assertEqual([each for each in self.clock.reactor.getDelayedCalls() if each.getTime() < soon], [])


class FilterTests(BrowsingTestCase):
    """Messages found by C{where} and C{body}."""

    def test_expressions(self) -> None:
        """Numbers, texts, times and what the body is decoded to are compared."""
        self.put(b'{"customer": {"id": 7}}', label="json")
        self.put(b"plain", label="urgent order", priority=6)
        for where, expected in (
            ("priority > `3`", ["plain"]),
            ("contains(label, 'order')", ["plain"]),
            ("decoded.value.customer.id == `7`", ['{"customer": {"id": 7}}']),
            ("arrived_time > '1999'", ["plain", '{"customer": {"id": 7}}']),
            ("label == 'none'", []),
        ):
            self.assertEqual(self.found(where=where), expected, where)

    def test_text_in_bodies(self) -> None:
        """A text is found in UTF-8 and in UTF-16, and both conditions have to hold."""
        self.put("caf\u00e9".encode(), "the caf\u00e9".encode("utf-16-le"), b"tea", label="L")
        messages, end = self.browse(body="caf\u00e9")
        self.assertEqual((len(messages), end["looked_at"]), (2, 3))
        self.assertEqual(self.browse(body="caf\u00e9", where="label == 'other'")[0], [])

    def test_incomparable_messages_are_counted(self) -> None:
        """A function that does not fit a message finds nothing, and the end says so."""
        self.put(b"\xff", b"text")
        messages, end = self.browse(where="contains(body, 'text')")
        self.assertEqual(len(messages), 1)
        self.assertEqual(end["not_compared"], 1)
        self.assertIn("contains()", end["reason"])
        messages, end = self.browse(where="priority > '3'")
        self.assertEqual((messages, end["not_compared"]), ([], 2))
        self.assertIn("a number has backticks around it", end["reason"])

    def test_expressions_that_cost_too_much(self) -> None:
        """Expressions that are too deep, too long, of unbounded cost, or call unknown functions
        are refused.
        """
        for where, words in (
            ("|".join(["[@,@]"] * 12), "more than 1000 values"),
            ("!" * 1900 + "label", "levels"),
            ("label == '" + "x" * 3000 + "'", "characters"),
            ("matches(label, 'x')", "'matches'"),
        ):
            error = self.assertRaises(MQError, MessageFilter, where, None)
            self.assertIn(words, error.detail)

    def test_results_that_grow(self) -> None:
        """An expression whose results are multiplied is not applied to a message beyond a limit; its length
        bounds nothing: with some more calls of C{join} it would take all memory.
        """
        self.put(json.dumps([0] * 20_000).encode() + b" " * 4000)
        joined = "label"
        for _ in range(5):
            joined = f"join({joined}, keys(@))"
        numbers = f"`[{','.join('0' * 100)}]`"
        for where, words in (
            (f"length({joined})", "makes more than 16777216 characters"),
            (f"to_string([{','.join(['body'] * 350)}])", "makes more than 16777216 characters"),
            ("join(body, decoded.value[*].to_string(@))", "makes more than 16777216 characters"),
            (f"{numbers}[*].not_null({numbers})[].not_null({numbers})[]", "takes more than 200000 steps"),
            (f"[{','.join(['decoded.value'] * 100)}][]", "takes more than 200000 steps"),
            (f"[{','.join(['sort(decoded.value)'] * 50)}]", "takes more than 200000 steps"),
        ):
            messages, end = self.browse(where=where)
            self.assertEqual((messages, end.get("not_compared")), ([], 1), where)
            self.assertIn(words, end["reason"])

    def test_comparisons_that_grow(self) -> None:
        """Comparisons of values that have the same part many times are limited too, and an error names no
        whole value.
        """
        self.put(json.dumps([0] * 20_000).encode() + b" " * 4000)
        texts = f"[{','.join(['body'] * 250)}]"
        zeros, other = f"[`[{','.join('0' * 100)}]`]", f"[`[{','.join('0' * 99)},1]`]"
        for where in (
            f"{texts} | not_null({','.join(['sort(@)'] * 40)})",
            f"{texts} | not_null({','.join(['max(@)'] * 80)})",
            f"decoded.value[:9000].{zeros} == decoded.value[:9000].{other}",
            f"[decoded.value[:9000].{zeros}, decoded.value[:9000].{other}] | contains([@[0], @[0]], @[1])",
        ):
            messages, end = self.browse(where=where)
            self.assertEqual((messages, end.get("not_compared")), ([], 1), where)
            self.assertIn("takes more than 200000 steps", end["reason"])
        _, end = self.browse(where=f"to_string([{','.join(['reverse(body)'] * 135)}])")
        self.assertIn("makes more than 16777216 characters", end["reason"])
        for where, words in (
            (f"decoded.value[*].{zeros} | abs(@)", "invalid type for value: an array"),
            ("abs(body)", f"invalid type for value: '[{'0, ' * 33}...'"),
            ("ceil(`1e999`)", "cannot convert float infinity to integer"),
        ):
            _, end = self.browse(where=where)
            self.assertIn(words, end["reason"])
            self.assertLess(len(end["reason"]), 250)

    def test_longest_list(self) -> None:
        """Every element of the longest body that is decoded can be compared."""
        self.put(f"[{','.join('1' * 32_767)}]".encode())
        self.assertEqual(len(self.found(where="length(decoded.value[?@ < `5`]) == `32767`")), 1)
        self.assertEqual(len(self.found(where="contains(to_string(@), 'value')")), 1)


class SingleMessageTests(BrowsingTestCase):
    """One message by its LookupIdentifier."""

    def test_found_while_a_reader_has_it(self) -> None:
        """A message is shown while a reader holds it, and not after it was received."""
        self.put(b"held")
        reservation = self.run_to_end(self.service.reserve(ORDERS, timeout=0))
        target = f"{MESSAGES}/{reservation.messages[0].lookup_id}"
        answer = self.call("GET", target, None)
        self.assertEqual((answer.status, answer.json["body"]), (200, "held"))
        self.assertEqual(self.call("GET", target, None, raw="true").json["body_base64"], "aGVsZA==")
        self.run_to_end(reservation.confirm())
        self.assert_refused(self.call("GET", target, None), 404, "MQ_ERROR_MESSAGE_NOT_FOUND")
