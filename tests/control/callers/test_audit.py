"""Changes through the control API are recorded with their caller, in the log and in the event log."""

from __future__ import annotations

import json
import os
import pwd
import socket
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.control.authentication.callers import Caller, caller_of, login_uid
from msmq.control.authentication.token_check import TokenSite
from msmq.control.authentication.tokens import TokenError, read_tokens
from msmq.control.protocol.records import PROTOCOL, StreamRecord
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.persistence.changes import AppendEvent
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.well_known_sids import ADMINISTRATORS
from tests.control import support
from tests.control.callers.test_token_check import OTHER, TOKEN, authentication, token_file, unnamed
from tests.control.support import DEAD_LETTERS, ORDERS, Answer, ControlTestCase, resource

ME = f"uid {os.getuid()} ({pwd.getpwuid(os.getuid()).pw_name})"
MISSING = ".\\private$\\missing"


class LocalTransport(StringTransport):
    """The server's end of a unix socket whose other end is in this process."""

    def __init__(self, test: SynchronousTestCase) -> None:
        super().__init__()
        self._here, there = socket.socketpair(socket.AF_UNIX)
        test.addCleanup(self._here.close)
        test.addCleanup(there.close)

    def getHandle(self) -> socket.socket:
        """The socket, as transports of Twisted give it."""
        return self._here


class LocalCaller(support.Caller):
    """One connection to the control socket."""

    def __init__(self, test: ControlTestCase) -> None:
        self._clock = test.clock
        self.transport = LocalTransport(test)
        self.protocol = test.site.buildProtocol(None)
        self.protocol.makeConnection(self.transport)


class AuditTestCase(ControlTestCase):
    """Keeps what the log says of changes."""

    def setUp(self) -> None:
        super().setUp()
        self.lines: list[LogEvent] = []
        self.all: list[str] = []

        @implementer(ILogObserver)
        class Observer:
            def __call__(_, event: LogEvent) -> None:
                self.all.append(repr(event))
                if event.get("log_namespace") == "msmq.control.authentication.audit.Audit":
                    self.lines.append(event)

        observer = Observer()
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def local(self, method: str, path: str, value: object = None, **parameters: Any) -> Answer:
        """One request over the control socket, answered at once."""
        caller = LocalCaller(self)
        body = None if value is None else json.dumps(value).encode("ascii")
        caller.ask(method, path, body, **parameters)
        return caller.answer

    def reported(self) -> list[str]:
        """The lines about changes since this was last asked."""
        found = [str(formatEvent(event)) for event in self.lines]
        self.lines.clear()
        return found

    def events(self) -> list[AppendEvent]:
        """The audit events in the event log."""
        store: Any = self.disk
        rows = self.successResultOf(store.read_events(0, 1000))
        return [row.event for row in rows if row.event.event == "administered"]


class ChangeTests(AuditTestCase):
    """One line for each change, with caller, operation and result."""

    def options(self) -> Mapping[str, Any]:
        return {"access": AccessPolicy(MemoryAccessControl(), ADMINISTRATORS)}

    def test_queues(self) -> None:
        """A queue is created, changed, purged and deleted, each with its caller."""
        path = ".\\private$\\new"
        target = resource("queues", path)
        self.local("POST", "/v1/queues", {"path": path, "transactional": True})
        self.local("PATCH", target, {"quota": 7})
        self.put(b"1", b"2", queue=path, transactional=True)
        self.local("POST", f"{target}/purge")
        self.local("DELETE", target)
        self.assertEqual(
            self.reported(),
            [
                f'{ME}: done: queue create {path} {{"transactional": true}}',
                f'{ME}: done: queue set {path} {{"quota": 7}}',
                f"{ME}: done: queue purge {path} (2 messages)",
                f"{ME}: done: queue delete {path}",
            ],
        )

    def test_fields(self) -> None:
        """Each value for machines has a field of its own."""
        self.local("POST", resource("queues", ORDERS, "purge"))
        [event] = self.lines
        for name, value in {
            "uid": os.getuid(),
            "gid": os.getgid(),
            "pid": os.getpid(),
            "token_name": "",
            "outcome": "done",
            "error": None,
            "operation": "queue purge",
            "target": ORDERS,
            "details": {},
            "reason": "0 messages",
        }.items():
            self.assertEqual(event[name], value, name)

    def test_refused(self) -> None:
        """An operation that the queue manager refuses is recorded, with the reason."""
        self.assertEqual(self.local("DELETE", resource("queues", MISSING)).status, 404)
        [event] = self.lines
        self.assertEqual((event["outcome"], event["error"]), ("refused", "MQ_ERROR_QUEUE_NOT_FOUND"))
        [line] = self.reported()
        self.assertTrue(
            line.startswith(f"{ME}: refused with MQ_ERROR_QUEUE_NOT_FOUND: queue delete {MISSING} ("), line
        )

    def test_descriptors(self) -> None:
        """A change of access rights has its caller."""
        acl = resource("queues", ORDERS, "acl")
        self.local("POST", acl, {"action": "deny", "principal": "anonymous", "rights": ["send"]})
        self.local("POST", acl, {"action": "revoke", "principal": "anonymous"})
        self.local("POST", acl, {"action": "allow", "principal": "nobody at all", "rights": ["send"]})
        first, second, third = self.reported()
        self.assertEqual(
            first, f'{ME}: done: acl deny {ORDERS} {{"principal": "anonymous", "rights": ["send"]}}'
        )
        self.assertEqual(
            second, f'{ME}: done: acl revoke {ORDERS} {{"principal": "anonymous", "rights": []}}'
        )
        self.assertIn("refused with MQ_ERROR_COULD_NOT_GET_USER_SID: acl allow", third)

    def test_messages(self) -> None:
        """A message is moved, and a dead letter is sent again; msmq explain shows by which caller."""
        self.put(b"1")
        [moved] = self.identifiers()
        aside = f"{ORDERS};aside"
        self.local("POST", resource("messages", moved, "move"), {"queue": aside})
        self.assertEqual(self.reported(), [f"{ME}: done: move {moved} {json.dumps({'queue': aside})}"])
        explained = self.local("GET", resource("messages", moved)).json["events"]
        self.assertEqual([(event["event"], event["queue"]) for event in explained], [("administered", aside)])
        self.assertIn(f"{ME}: done: move", explained[0]["reason"])
        self.local("POST", resource("messages", moved, "move"), {"queue": DEAD_LETTERS})
        self.local("POST", resource("deadletters", moved, "requeue"))
        again = self.reported()[-1]
        self.assertTrue(again.startswith(f"{ME}: done: deadletter requeue {moved} ("), again)
        self.local("POST", resource("messages", moved, "move"), {"queue": aside})
        self.assertIn(f"{ME}: refused with MQ_ERROR_MESSAGE_NOT_FOUND: move {moved}", self.reported()[0])
        explained = self.local("GET", resource("messages", moved)).json["events"]
        self.assertEqual([event["queue"] for event in explained], [aside, DEAD_LETTERS, DEAD_LETTERS, None])
        self.assertNotIn("refused", str([event["reason"] for event in explained]))

    def test_transactions(self) -> None:
        """A caller aborts the transaction of another one."""
        transaction = self.service.begin()
        name = str(transaction.identifier).upper()
        self.local("POST", f"/v1/transactions/{name}/abort")
        self.local("POST", f"/v1/transactions/{name}/abort")
        done, refused = self.reported()
        self.assertEqual(done, f"{ME}: done: transaction abort {name}")
        self.assertIn("refused with MQ_ERROR_TRANSACTION_SEQUENCE", refused)

    def test_reads_are_not_recorded(self) -> None:
        """Looking changes nothing, nor does what cannot be understood; messages have traces of their own."""
        self.local("GET", "/v1/queues")
        self.local("GET", resource("queues", ORDERS, "acl"))
        self.local("POST", "/v1/queues", {"path": ORDERS, "colour": "red"})
        self.local("POST", "/v1/messages", 1, destination=ORDERS)
        self.local("GET", "/v1/messages", queue=ORDERS)
        self.assertEqual(self.reported(), [])

    def test_caller_gone(self) -> None:
        """An operation that goes on without its caller is recorded when it has ended."""
        self.disk.is_slow = True
        caller = LocalCaller(self)
        caller.ask("POST", "/v1/queues", json.dumps({"path": MISSING}).encode())
        caller.hang_up()
        self.assertEqual(self.reported(), [])
        self.disk.is_slow = False
        self.disk.catch_up()
        self.clock.advance(0)
        self.assertEqual(self.reported(), [f"{ME}: done: queue create {MISSING}"])

    def test_nothing_secret(self) -> None:
        """The file of a certificate, and its password, are not recorded."""
        wanted = {"file_base64": b64encode(b"not a file").decode(), "password": "hunter2"}
        self.local("POST", "/v1/certificates", wanted)
        [line] = self.reported()
        self.assertIn("certificate import default", line)
        for secret in ("hunter2", wanted["file_base64"], "not a file"):
            self.assertNotIn(secret, "".join(self.all))

    def test_names_of_callers(self) -> None:
        """Text from a caller stays on its line, after all fields of the server."""
        path = f"no such\n{ME}: done: queue delete {ORDERS}\x1b[2J\u202e"
        self.local("POST", "/v1/queues", {"path": path})
        [line] = self.reported()
        self.assertTrue(line.startswith(f"{ME}: refused with "), line)
        self.assertIn("no such\\n", line)
        self.assertTrue(line.isprintable(), line)

    def test_import(self) -> None:
        """An import has a line for each destination, when it has ended."""
        other = self.make_queue("other", transactional=False)
        caller = LocalCaller(self)
        headers = {"Connection": "Upgrade", "Upgrade": PROTOCOL}
        caller.ask("GET", "/v1/send?import=true", headers=headers)
        for destination, count in ((ORDERS, 2), (other, 1), (ORDERS, 1)):
            for _ in range(count):
                caller.feed(StreamRecord({"destination": destination}, b"x").to_bytes())
        self.assertEqual(self.reported(), [])
        caller.hang_up()
        self.assertEqual(
            self.reported(),
            [f"{ME}: done: import {ORDERS} (3 messages)", f"{ME}: done: import {other} (1 message)"],
        )
        plain = LocalCaller(self)
        plain.ask("GET", "/v1/send", headers=headers)
        plain.feed(StreamRecord({"destination": ORDERS}, b"x").to_bytes())
        plain.hang_up()
        self.assertEqual(self.reported(), [])


class CallerTests(SynchronousTestCase):
    """Identity of callers."""

    def test_texts(self) -> None:
        """A user has a name, a token its own, and no caller has more than that."""
        unknown_uid = 0x7FFFFFF0
        for caller, text in (
            (Caller(uid=0), "uid 0 (root)"),
            (Caller(uid=unknown_uid), f"uid {unknown_uid}"),
            (Caller(uid=unknown_uid, login_uid=unknown_uid), f"uid {unknown_uid}"),
            (Caller(uid=unknown_uid, login_uid=0), f"uid {unknown_uid}, logged in as uid 0 (root)"),
            (Caller(token_name="token billing", address="192.0.2.1"), "token billing from 192.0.2.1"),
            (Caller(address="192.0.2.1"), "unknown from 192.0.2.1"),
            (Caller(), "unknown"),
        ):
            self.assertEqual(str(caller), text)

    def test_socket(self) -> None:
        """The kernel reports which process connected."""
        found = caller_of(LocalTransport(self))
        self.assertEqual((found.uid, found.gid, found.pid), (os.getuid(), os.getgid(), os.getpid()))

    def test_login(self) -> None:
        """The login user is known where the kernel keeps it."""
        processes = Path(self.mktemp())
        (processes / "7").mkdir(parents=True)
        for text, expected in (("1000", 1000), ("4294967295", None), ("", None), ("x", None)):
            (processes / "7" / "loginuid").write_text(text)
            self.assertEqual(login_uid(7, processes), expected)
        self.assertIsNone(login_uid(8, processes))


class TokenNameTests(AuditTestCase):
    """The token of a caller is shown by its name, or the beginning of its digest."""

    def test_file(self) -> None:
        """A name stands before its token; files without any are what they were."""
        names = [token.name for token in read_tokens(token_file(self, TOKEN, f" billing\t{OTHER} "))]
        self.assertEqual(names, [unnamed(TOKEN), "token billing"])
        [token] = read_tokens(token_file(self, f"billing {TOKEN}"))
        self.assertEqual(token.authorization, f"Bearer {TOKEN}")

    def test_moved_in_the_file(self) -> None:
        """A token without a name keeps what stands for it when lines are added to the file or removed."""
        path = token_file(self, TOKEN, OTHER)
        former = {token.digest: token.name for token in read_tokens(path)}
        self.assertEqual(len(set(former.values())), 2)
        path.write_text(f"{OTHER}\n")
        [left] = read_tokens(path)
        self.assertEqual(left.name, former[left.digest])

    def test_refused(self) -> None:
        """A token itself is never used as a name, in any field; nothing of it is shown."""
        for line, words in (
            (f"{TOKEN} billing", "token 1 must have"),
            (f"{TOKEN} {OTHER}", "the name of token"),
            (f"two words {TOKEN}", "the role of token"),
            (f"three more words {TOKEN}", "the name of token"),
            (f"ü {TOKEN}", "the name of token"),
        ):
            error = self.assertRaises(TokenError, read_tokens, token_file(self, line))
            self.assertIn(words, str(error))
            for secret in (TOKEN, OTHER):
                self.assertNotIn(secret[:31], str(error))

    def test_each_by_its_token(self) -> None:
        """Each of several callers is named by the token that it has shown."""
        tokens = authentication(token_file(self, f"billing {TOKEN}", OTHER), self.clock.reactor)
        guarded: Any = TokenSite(self.site, tokens, self.clock.reactor)
        for token in (TOKEN, OTHER):
            caller = support.Caller(guarded, self.clock, IPv4Address("TCP", "192.0.2.1", 50000))
            caller.ask(
                "POST", resource("queues", ORDERS, "purge"), headers={"Authorization": f"Bearer {token}"}
            )
            self.assertEqual(caller.answer.status, 200)
        purged = f": done: queue purge {ORDERS} (0 messages)"
        self.assertEqual(
            self.reported(),
            [f"token billing from 192.0.2.1{purged}", f"{unnamed(OTHER)} from 192.0.2.1{purged}"],
        )
        for secret in (TOKEN, OTHER):
            self.assertNotIn(secret, "".join(self.all))


class EventTests(AuditTestCase):
    """The event log has what the log has."""

    def test_event(self) -> None:
        """An event about a queue, which is not an event of a message."""
        self.local("DELETE", resource("queues", ORDERS))
        self.clock.advance(0)
        [event] = self.events()
        self.assertEqual((event.identity, event.queue), (b"", "private$\\orders"))
        self.assertEqual(event.reason, f"{ME}: done: queue delete {ORDERS}")
