"""Wrong arguments of an application: each is refused where it comes in, by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Message
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.status import Status
from tests.manager.support import ManagerTestCase


class ArgumentTests(ManagerTestCase):
    def check(self, words: str, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Fail unless a call is refused in these words."""
        error = self.failureResultOf(self.deferred(call()), LocalProtocolError).value
        self.assertIn(words, str(error))

    def test_calls_of_the_queue_manager(self) -> None:
        """Messages, names, limits of a read, and transactions."""
        manager: Any = self.service
        queue = self.orders
        for words, call in (
            ("the name of a queue is an int", lambda: manager.send(5, [])),
            ("the name of a queue is a list", lambda: manager.send([queue], [])),
            ("the name of a queue is a list", lambda: manager.receive([queue])),
            ("messages is a str; it has to be a list of Message", lambda: manager.send(queue, "text")),
            ("messages is a Message", lambda: manager.send(queue, Message())),
            ("messages has a bytes", lambda: manager.send(queue, [b"body"])),
            ("keys is an int", lambda: manager.send(queue, [Message()], keys=5)),
            ("keys has an int", lambda: manager.send(queue, [Message()], keys=[5])),
            ("transaction is an int", lambda: manager.send(queue, [Message()], transaction=5)),
            ("path is a NoneType; it has to be a str", lambda: manager.create_queue(None)),
            ("the name of a queue is a NoneType", lambda: manager.reserve(None)),
            ("the name of a queue is an int", lambda: manager.receive(5)),
            ("the name of a queue is an int", lambda: manager.peek(5)),
            ("destination is an int", lambda: manager.format_name(5)),
            ("path is an int", lambda: manager.purge_queue(5)),
            ("count is a str", lambda: manager.reserve(queue, count="1")),
            ("size is a str", lambda: manager.reserve(queue, size="1")),
            ("after is a NoneType", lambda: manager.reserve(queue, after=None, peek=True)),
            ("timeout is a str", lambda: manager.reserve(queue, timeout="1")),
            ("timeout is nan", lambda: manager.receive(queue, timeout=math.nan)),
            ("transaction is an int", lambda: manager.reserve(queue, transaction=5)),
            ("message is an int; it has to be a MessageIdentifier", lambda: manager.move(5, queue)),
        ):
            self.check(words, call)

    def test_limits(self) -> None:
        """Numbers for which there is no meaning: negative ones are not taken for no limit, as a store may."""
        manager: Any = self.service
        inspection, queue = manager.inspection, self.orders
        self.put(queue, b"1")
        self.run_to_end(manager.set_queue(queue, {"log": True}))
        cursor = manager.open_queue(queue).cursor()
        for number in (-1, 10**30, 10**400):
            of_a_read = "a read is of at least one" if number < 0 else "count"
            for words, call in (
                ("count", partial(inspection.browse, queue, count=number)),
                ("count", partial(inspection.logged, queue, 0, number)),
                ("limit", partial(inspection.events, 0, number)),
                ("limit", partial(inspection.dead_letters, number)),
                (of_a_read, partial(manager.reserve, queue, count=number)),
            ):
                self.check(words, call)
        for read in (
            lambda: manager.reserve(queue, timeout=10**400),
            lambda: cursor.peek(timeout=10**400),
            lambda: cursor.receive(timeout="1"),
        ):
            self.check("timeout is ", read)

    def test_calls_of_administration(self) -> None:
        """All that an operation needs: names, properties, quotas, identifiers and numbers."""
        manager: Any = self.service
        inspection, queue = manager.inspection, self.orders
        for words, call in (
            ("path is a list; it has to be a str", lambda: manager.delete_queue(["q"])),
            ("properties is a list; it has to be a dict", lambda: manager.set_queue(queue, ["label"])),
            ("a key of properties is an int; it has to be a str", lambda: manager.set_queue(queue, {5: 5})),
            ("changes is a str; it has to be a dict", lambda: manager.set_quotas("quota")),
            ("a key of changes is a str; it has to be a QuotaKind", lambda: manager.set_quotas({"quota": 1})),
            (
                "changes[quota] is a str; it has to be an int, or None",
                lambda: manager.set_quotas({QuotaKind.QUEUES: "1"}),
            ),
            ("message is a str; it has to be a MessageIdentifier", lambda: manager.requeue("{1}\\2")),
            ("first is a NoneType; it has to be an int", lambda: manager.replay(queue, queue, first=None)),
            ("since is a str; it has to be a float", lambda: manager.replay(queue, queue, since="now")),
            ("since is nan", lambda: manager.replay(queue, queue, since=math.nan)),
            ("identifier is a str; it has to be a UUID", lambda: manager.abort_transaction("1")),
            ("message is a bytes; it has to be a MessageIdentifier", lambda: inspection.explain(b"1")),
            ("after is a str; it has to be an int", lambda: inspection.events(after="1")),
            ("limit is a float; it has to be an int", lambda: inspection.events(limit=1.5)),
            ("after is a NoneType; it has to be an int", lambda: inspection.browse(queue, after=None)),
            ("lookup_id is a str; it has to be an int", lambda: inspection.read_message(queue, "1")),
            (
                "down is a str; it has to be a list of texts",
                lambda: inspection.route("ALPHA", "BETA", down="GAMMA"),
            ),
            (
                "lookup_ids has a str; it has to be a list of ints",
                lambda: manager.message_administration.remove(queue, ["1"]),
            ),
            ("rights is a str; it has to be a list", lambda: manager.access.allow(queue, "everyone", "send")),
            ("destination is an int; it has to be a str", lambda: manager.drains.begin(queue, 5)),
        ):
            self.check(words, call)

    def test_calls_that_answer_with_a_deferred(self) -> None:
        """A wrong argument is the failure of the Deferred, as other refusals are."""
        manager: Any = self.service
        for call in (manager.pause_next_hop, manager.resume_next_hop, manager.pause_outgoing):
            error = self.failureResultOf(call(5), LocalProtocolError).value
            self.assertRegex(str(error), "^(host|name) is an int; it has to be a str$")
        error = self.assertRaises(LocalProtocolError, manager.inspection.queue, ["q"])
        self.assertEqual(str(error), "path is a list; it has to be a str")

    def test_properties_of_a_queue(self) -> None:
        """A wrong type is refused by the name of the property, for a new queue and for a change."""
        manager: Any = self.service
        for name, value, words in (
            ("journal", "no", "journal is a str; it has to be a bool"),
            ("quota", "5", "quota is a str; it has to be an int, or None"),
            ("quota", True, "quota is a bool; it has to be an int, or None"),
            ("label", None, "label is a NoneType; it has to be a str"),
            ("privacy", ["none"], "privacy is a list; it has to be a str"),
            ("log_age", 1.5, "log_age is a float; it has to be an int"),
            ("log_size", -1, "log size -1 is not within 0..0xFFFFFFFF"),
        ):
            for work in (
                manager.create_queue(".\\private$\\new", **{name: value}),
                manager.set_queue(self.orders, {name: value}),
            ):
                error = self.refused(work, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
                self.assertIn(words, str(error))
        creation = manager.create_queue(".\\private$\\new", application_type="x")
        error = self.refused(creation, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
        self.assertIn("application_type is a str; it has to be a UUID, or None", str(error))
        paths = [each.path for each in manager.inspection.queues()]
        self.assertNotIn(".\\private$\\new", paths)

    def test_calls_of_an_open_queue(self) -> None:
        """The same of a queue that is open."""
        manager: Any = self.service
        self.assertIn(
            "access is a str",
            str(self.assertRaises(LocalProtocolError, manager.open_queue, self.orders, "r")),
        )
        error = self.assertRaises(LocalProtocolError, manager.open_queue, self.orders, share_mode=5)
        self.assertIn("share_mode is an int", str(error))
        reader = manager.open_queue(self.orders)
        sender = manager.open_queue(self.orders, QueueAccessType.SEND)
        self.addCleanup(reader.close)
        self.addCleanup(sender.close)
        for words, call in (
            ("messages is a str", lambda: sender.send("text")),
            ("count is a str", lambda: reader.reserve(count="1")),
            ("timeout is a str", lambda: reader.peek(timeout="1")),
            ("transaction is an int", lambda: reader.receive(transaction=5)),
        ):
            self.check(words, call)
