"""Wildcards in names of queues."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.wildcards import is_pattern, matches
from msmq.persistence.changes import Change
from msmq.queues.arriving.message import Message
from tests.cli.served import ServedCommandTestCase
from tests.control.support import ORDERS


class WildcardTests(SynchronousTestCase):
    """C{*} and C{?}, as the cmdlets of Windows have them."""

    def test_matches(self) -> None:
        """A pattern matches the whole name or its last part, without case; brackets are characters."""
        orders, beta = ".\\private$\\Orders", "DIRECT=OS:BETA\\private$\\orders"
        for pattern, name, is_match in (
            ("ord*", orders, True),
            ("order?", orders, True),
            ("rders", orders, False),
            ("*", orders, True),
            (".\\PRIVATE$\\o*", orders, True),
            ("private$\\*", orders, False),
            ("DIRECT=OS:*", beta, True),
            ("*beta\\*", beta, True),
            ("q[1]*", ".\\private$\\q[1]x", True),
            ("q[1]*", ".\\private$\\q1", False),
        ):
            with self.subTest(pattern=pattern, name=name):
                self.assertIs(matches(name, pattern), is_match)
        self.assertFalse(is_pattern("q[1]"))


class NamedByPatternTests(ServedCommandTestCase):
    """Queues whose names have the characters of wildcards."""

    def break_after_a_commit(self) -> None:
        """The store takes one more commit."""
        commit = self.disk.commit

        def only_once(changes: Sequence[Change]) -> Deferred[None]:
            done = commit(changes)
            self.disk.is_broken = True
            return done

        self.patch(self.disk, "commit", only_once)

    def test_exact_name(self) -> None:
        """A whole name selects its queue alone, in a list, a purge and a deletion."""
        star, mark, other = (self.make_queue(name) for name in ("a*", "a?", "ab"))
        for path in (star, mark, other):
            self.put(b"1", b"2", queue=path)
        listed = self.msmq("queue", "list", star.upper(), "--json").objects
        self.assertEqual([queue["path"] for queue in listed], [star])
        self.assertEqual(self.msmq("queue", "purge", star, "--yes").status, 0)
        self.assertEqual([len(self.bodies(path)) for path in (star, mark, other)], [0, 2, 2])
        self.assertEqual(self.msmq("queue", "delete", mark, "--yes").status, 0)
        found = self.msmq("queue", "list", "a*", "a?", "--json").objects
        self.assertEqual({queue["path"] for queue in found}, {star, other})

    def test_other_forms_of_a_name(self) -> None:
        """So does its format name, and its path without a computer."""
        star, other = self.make_queue("a*"), self.make_queue("ab")
        direct = f"DIRECT=OS:ALPHA\\{star.removeprefix('.' + chr(92))}"
        self.assertEqual(self.service.inspection.queue(direct).path, star)
        for name in (direct, star.upper()):
            for command in ("pause", "resume"):
                ended = self.msmq("queue", command, name, "--json")
                self.assertEqual([queue["path"] for queue in ended.objects], [star], ended.errors)
        ended = self.msmq("queue", "pause", "a*", "--json")
        self.assertEqual({queue["path"] for queue in ended.objects}, {star, other})

    def test_outgoing(self) -> None:
        """So does the format name of an outgoing queue."""
        star, other = (f"DIRECT=OS:BETA\\private$\\{name}" for name in ("*", "b"))
        for name in (star, other):
            self.run_to_end(self.service.send(name, [Message(body=b"1")]))
        listed = self.msmq("outgoing", "list", star, "--json").objects
        self.assertEqual([queue["format_name"] for queue in listed], [star])
        self.assertEqual(self.msmq("outgoing", "purge", star, "--yes").status, 0)
        self.assertEqual(self.msmq("outgoing", "show", other, "--json").objects[0]["messages"], 1)

    def test_refused_in_between(self) -> None:
        """A queue that is refused is named, the others follow, and what was done is printed."""
        others = [self.make_queue(name) for name in ("a1", "a2", "a3")]
        self.break_after_a_commit()
        ended = self.msmq("queue", "pause", "a?", "--json")
        self.assertEqual([queue["path"] for queue in ended.objects], others[:1])
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 2), ended.errors)
        for path in others[1:]:
            self.assertIn(f"{path}: MQ_ERROR_MESSAGE_STORAGE_FAILED", ended.errors)

    def test_refused_outgoing_queue(self) -> None:
        """So it is with outgoing queues."""
        names = [f"DIRECT=OS:BETA\\private$\\{name}" for name in ("a1", "a2")]
        for name in names:
            self.run_to_end(self.service.send(name, [Message(body=b"1")]))
        self.break_after_a_commit()
        ended = self.msmq("outgoing", "pause", "a?", "--json")
        self.assertEqual([queue["format_name"] for queue in ended.objects], names[:1])
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1), ended.errors)
        self.assertIn(f"{names[1]}: MQ_ERROR_MESSAGE_STORAGE_FAILED", ended.errors)


class QueueNameTests(ServedCommandTestCase):
    """Names of queues in options."""

    def test_message_of_a_queue(self) -> None:
        """A message is found under every name of its queue."""
        self.put(b"1")
        [identifier] = self.identifiers()
        for name in (ORDERS, ORDERS.upper(), "DIRECT=OS:ALPHA\\private$\\orders"):
            ended = self.msmq("message", "show", identifier, "--queue", name, "--json")
            self.assertEqual([each["id"] for each in ended.objects], [identifier], ended.errors)
        self.make_queue("other")
        self.assert_ended(
            ["message", "show", identifier, "--queue", ".\\private$\\other"], 1, "MQ_ERROR_MESSAGE_NOT_FOUND"
        )

    def test_end_of_every_name(self) -> None:
        """A variable of a script that is not set does not discard all dead letters."""
        for value in ("", " ", "."):
            for verb in (["list"], ["discard", "--yes"], ["requeue"]):
                self.assert_ended(["deadletter", *verb, "--queue", value], 2, "--queue", "--all")

    def test_text_in_every_body(self) -> None:
        """Nor does it remove all messages of a queue."""
        for verb in (["remove", "--yes"], ["copy", "--to", ORDERS], ["move", ORDERS]):
            self.assert_ended(["message", *verb, "--queue", ORDERS, "--body", ""], 2, "--body", "--all")
