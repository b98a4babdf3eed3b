"""A directory server on a timeline of everything that happens to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from ldaptor.protocols import pureldap
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap import operations
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import folded
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.interfaces import DirectoryError
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from tests.servers.emulated_ldap import SUFFIX, EmulatedDirectory

ALPHA = UUID(int=0xA)
EXPIRED = "80090308: LdapErr: DSID-0C09042A, comment: AcceptSecurityContext error, data 532, v4563"

Change = Callable[[EmulatedDirectory], None]


class OutageTests(TestCase):
    """Each fault is an error with its reason, and the first request after it succeeds."""

    def setUp(self) -> None:
        self.server = EmulatedDirectory(capabilities=())
        self.port, address = self.server.listen(reactor, "127.26.0.9")
        self.addCleanup(lambda: self.port.stopListening())
        self.number = address.port
        computer = f"CN=ALPHA,CN=Computers,{SUFFIX}"
        self.server.add(computer, objectClass=[b"computer"])
        self.server.add(
            f"CN=msmq,{computer}", objectClass=[b"mSMQConfiguration"], objectGUID=[pack_guid(ALPHA)]
        )
        settings = LdapSettings((address,), SUFFIX, connect_timeout=0.4, answer_timeout=0.4)
        self.directory = LdapDirectory(settings, SystemClock(), reactor)
        self.addCleanup(self.directory.close)

    def hang_up(self, server: EmulatedDirectory) -> None:
        for connection in list(server.connections):
            transport: Any = connection.transport
            transport.abortConnection()

    async def name(self) -> str:
        found = await self.directory.read(
            QueueManagerObject, [equals("identifier", ALPHA)], ("computer_name",)
        )
        return str(found["computer_name"])

    async def outage(self, begin: Change, end: Change, reported: str) -> None:
        """The fault is reported, and gone with its cause."""
        begin(self.server)
        said = ""
        for _ in range(2):
            with self.assertRaises(DirectoryError) as refused:
                await self.name()
            said = refused.exception.detail
        # The first attempt may lose the connection that there was.
        self.assertIn(reported, said)
        self.assertFalse(self.directory.condition.is_reached)
        end(self.server)
        time = IReactorTime(reactor)
        returned = time.seconds()
        self.assertEqual(await self.name(), "ALPHA")
        self.assertLess(time.seconds() - returned, 2)
        self.assertTrue(self.directory.condition.is_reached)

    async def test_timeline(self) -> None:
        """Garbage, silence, an expired password and a server that stops: the next request finds it again."""

        def say(text: bytes | None) -> Change:
            return lambda server: setattr(server, "said_instead", text)

        def bind(code: int, text: str) -> Change:
            def change(server: EmulatedDirectory) -> None:
                server.bind_result = (code, text)
                self.hang_up(server)

            return change

        self.assertEqual(await self.name(), "ALPHA")
        for text in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x30\x03abc", b"\x30\x84\xff\xff\xff\xff"):
            await self.outage(say(text), say(None), "LDAP message")
        await self.outage(say(b""), say(None), "within 0.4 seconds")
        await self.outage(bind(49, EXPIRED), bind(0, ""), "the password has expired")
        await self.outage(bind(52, "shutting down"), bind(0, ""), "unavailable (shutting down)")
        self.assertEqual(len(self.server.connections), 1)

    async def test_full_disk(self) -> None:
        """A server that cannot write is an error of the write alone; what it holds is read as before."""
        queue = QueueObject(pathname="ALPHA\\orders")
        self.server.write_result = (80, "MDB_MAP_FULL: Environment mapsize limit reached", ())
        with self.assertRaises(DirectoryError) as refused:
            await self.directory.create(queue)
        self.assertIn("LDAP result 80, other (MDB_MAP_FULL", refused.exception.detail)
        self.assertEqual(await self.name(), "ALPHA")
        self.server.write_result = None
        await self.directory.create(queue)
        self.assertTrue(await self.directory.read(QueueObject, [equals("pathname", "ALPHA\\orders")]))

    async def test_connection_is_lost_with_a_request(self) -> None:
        """A read is repeated on another connection; a write is not, and the directory counts as lost."""
        self.assertEqual(await self.name(), "ALPHA")
        left = [1]

        def hang_up_once(request: object) -> None:
            if left and not isinstance(request, pureldap.LDAPBindRequest):
                left.pop()
                self.server.said_instead = b""
                self.hang_up(self.server)
            else:
                self.server.said_instead = None

        self.server.before_answer = hang_up_once
        self.assertEqual(await self.name(), "ALPHA")
        self.assertEqual(left, [])
        self.assertTrue(self.directory.condition.is_reached)
        self.server.add(f"CN=orders,CN=msmq,CN=ALPHA,CN=Computers,{SUFFIX}", objectClass=[b"mSMQQueue"])
        self.server.before_answer = lambda request: (
            self.hang_up(self.server) if isinstance(request, pureldap.LDAPAddRequest) else None
        )
        with self.assertRaises(DirectoryError):
            await self.directory.create(QueueObject(pathname="ALPHA\\bills"))
        self.assertFalse(self.directory.condition.is_reached)
        self.assertEqual(await self.name(), "ALPHA")
        self.assertTrue(self.directory.condition.is_reached)

    async def test_requests_wait_for_the_bind(self) -> None:
        """A request that comes while a connection is being established is sent after the bind, and after the
        naming contexts of the server are known: earlier it would be in clear, or that of no account.
        """
        others: list[Deferred[str]] = []

        def ask_too(request: object) -> None:
            if len(others) < 3:
                others.append(Deferred.fromCoroutine(self.name()))

        for _ in range(2):
            others.clear()
            self.server.before_answer = ask_too
            self.server.requests.clear()
            self.assertEqual(await self.name(), "ALPHA")
            self.server.before_answer = lambda request: None
            self.assertEqual([await each for each in others], ["ALPHA"] * 3)
            bases = [base for _, base, _ in self.server.requests[:3]]
            self.assertEqual(bases, ["", "", f"CN=Configuration,{SUFFIX}"])
            self.assertEqual(self.server.requests[0][0], "LDAPBindRequest")
            self.hang_up(self.server)

    def add_managers(self, count: int) -> None:
        """More queue managers, which are read in pages of two."""
        self.server.page_limit = 2
        for number in range(count):
            computer = f"CN=M{number},CN=Computers,{SUFFIX}"
            self.server.add(computer, objectClass=[b"computer"])
            identifier = [pack_guid(UUID(int=0x100 + number))]
            self.server.add(f"CN=msmq,{computer}", objectClass=[b"mSMQConfiguration"], objectGUID=identifier)

    async def all_names(self) -> list[str]:
        handle = await self.directory.begin_read(
            QueueManagerObject, (), ("computer_name", "qualified_computer_name")
        )
        found = []
        while True:
            try:
                found.append(str((await self.directory.read_next(handle))["computer_name"]))
            except DirectoryError as ended:
                self.assertIs(ended.result, DirectoryOperationResult.END_OF_DATA)
                return found

    async def test_an_observer_that_fails(self) -> None:
        """Requests that wait for a connection continue, also if an observer of its condition raises."""

        def fail(condition: object) -> None:
            raise RuntimeError("the observer")

        self.directory.observe(fail)
        self.assertEqual(await self.name(), "ALPHA")
        await self.port.stopListening()
        self.hang_up(self.server)
        with self.assertRaises(DirectoryError):
            await self.name()
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    async def test_connection_lost_between_pages(self) -> None:
        """The rest of a search is not asked from another connection, whose server may have other entries
        under the same cookie: objects would be missing without an error.
        """
        self.add_managers(5)
        self.assertEqual(len(await self.all_names()), 6)
        asked = 0

        def lose(request: Any) -> None:
            nonlocal asked
            if isinstance(request, pureldap.LDAPSearchRequest) and request.scope == 2:
                asked += 1
                return
            if asked == 1 and request.baseObject.startswith(b"CN=M0"):
                # Between the first page and the second.
                asked += 1
                del self.server.records[folded(f"CN=msmq,CN=ALPHA,CN=Computers,{SUFFIX}")]
                self.server.said_instead = b""
                self.hang_up(self.server)
            else:
                self.server.said_instead = None

        self.server.before_answer = lose
        with self.assertRaises(DirectoryError) as refused:
            found = await self.all_names()
            self.assertEqual(found, [f"M{number}" for number in range(5)])
        self.assertIn("between two pages", refused.exception.detail)
        self.server.before_answer = lambda request: None
        self.server.said_instead = None
        self.assertEqual(await self.all_names(), [f"M{number}" for number in range(5)])

    async def test_base_lost_between_pages(self) -> None:
        """A search whose base disappears between two pages is an error, and not a shorter result."""
        self.add_managers(5)
        asked = 0

        def hide(request: Any) -> None:
            nonlocal asked
            if isinstance(request, pureldap.LDAPSearchRequest) and request.scope == 2:
                asked += 1
                if asked == 2:
                    del self.server.records[folded(SUFFIX)]

        self.server.before_answer = hide
        with self.assertRaises(DirectoryError) as refused:
            await self.all_names()
        self.assertIs(refused.exception.result, DirectoryOperationResult.GENERIC_ERROR)

    async def test_endless_pages(self) -> None:
        """A server that has always another page is an error, and the next search is not kept waiting."""
        self.add_managers(40)
        self.patch(operations, "MOST_PAGES", 10)
        with self.assertRaises(DirectoryError) as refused:
            await self.all_names()
        self.assertIn("more than 10 pages", refused.exception.detail)
        self.server.page_limit = 10
        self.assertEqual(len(await self.all_names()), 41)

    async def test_names_that_no_directory_has(self) -> None:
        """A name with half a character of UTF-16, which a peer may send, is not found, and cannot be created;
        the connection continues.
        """
        odd = "A\ud800"
        self.assertEqual(await self.name(), "ALPHA")
        for of, attribute, value in (
            (QueueManagerObject, "computer_name", odd),
            (QueueManagerObject, "qualified_computer_name", odd),
            (QueueObject, "pathname", f"{odd}\\orders"),
            (QueueObject, "pathname", f"ALPHA\\{odd}"),
            (QueueObject, "label", odd),
            (QueueObject, "full_path", f"CN={odd},{SUFFIX}"),
            (SiteObject, "name", odd),
        ):
            with self.assertRaises(DirectoryError) as refused:
                await self.directory.read(of, [equals(attribute, value)], ("identifier",))
            self.assertIs(refused.exception.result, DirectoryOperationResult.OBJECT_NOT_FOUND, attribute)
        with self.assertRaises(DirectoryError) as refused:
            await self.directory.object_sid(odd)
        self.assertIs(refused.exception.result, DirectoryOperationResult.OBJECT_NOT_FOUND)
        for queue in (QueueObject(pathname=f"ALPHA\\{odd}"), QueueObject(pathname="ALPHA\\q", label=odd)):
            with self.assertRaises(DirectoryError) as refused:
                await self.directory.create(queue)
            self.assertIs(refused.exception.result, DirectoryOperationResult.GENERIC_ERROR)
            self.assertIn("is not UTF-8", refused.exception.detail)
        self.assertEqual(await self.name(), "ALPHA")
        self.assertEqual([kind for kind, _, _ in self.server.requests].count("LDAPBindRequest"), 1)

    async def test_stopped(self) -> None:
        """A server that was stopped is used again by the first request after its start."""
        self.assertEqual(await self.name(), "ALPHA")
        await self.port.stopListening()
        self.hang_up(self.server)
        for _ in range(3):
            with self.assertRaises(DirectoryError):
                await self.name()
        self.port, _ = self.server.listen(reactor, "127.26.0.9", self.number)
        self.assertEqual(await self.name(), "ALPHA")
