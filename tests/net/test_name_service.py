"""Concurrent name look-ups: those without an answer delay no others."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IHostResolution, IResolutionReceiver
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.net.name_service import (
    AT_ONCE,
    FIRST_REST,
    KEPT,
    LONGEST_REST,
    QUESTIONS,
    RESERVED,
    WORKERS,
    YOUNG,
    NameService,
)


class LookupClock(Clock):
    """Time, and calls from threads that are made at once."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:
        callable(*args)


@implementer(IResolutionReceiver)
class Receiver:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.addresses: list[IAddress] = []
        self.is_complete = False

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self.resolution = resolutionInProgress

    def addressResolved(self, address: IAddress) -> None:
        self.addresses.append(address)

    def resolutionComplete(self) -> None:
        assert not self.is_complete
        self.is_complete = True


class NameServiceTests(SynchronousTestCase):
    """A system that answers when the test lets it."""

    def setUp(self) -> None:
        self.clock = LookupClock()
        self.threads: list[Callable[[], None]] = []
        self.known = {"beta": ["10.0.0.2", "fd00::2"], "gamma": ["10.0.0.3"]}
        self.looked_up: list[str] = []
        self.names = NameService(self.clock, start=self.threads.append, lookup=self.lookup)

    def lookup(self, name: str, port: int, family: int, kind: int) -> Sequence[Any]:
        self.looked_up.append(name)
        if name not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        found: list[Any] = []
        for address in self.known[name]:
            if ":" in address and family != socket.AF_INET:
                found.append((socket.AF_INET6, kind, 0, "", (address, port, 0, 0)))
            elif ":" not in address and family != socket.AF_INET6:
                found.append((socket.AF_INET, kind, 0, "", (address, port)))
        return found

    def ask(self, name: str, *arguments: Any) -> Receiver:
        receiver = Receiver()
        self.names.resolveHostName(receiver, name, *arguments)
        return receiver

    def answer(self) -> None:
        """Finish every look-up that has begun, and those that begin then."""
        while self.threads:
            self.threads.pop(0)()

    def test_addresses(self) -> None:
        """The addresses are those of the system, of the families that were asked for."""
        both, one = self.ask("beta"), self.ask("beta", 1801, [IPv4Address])
        six, datagram = self.ask("beta", 0, [IPv6Address]), self.ask("gamma", 3527, None, "UDP")
        self.answer()
        self.assertEqual(
            both.addresses, [IPv4Address("TCP", "10.0.0.2", 0), IPv6Address("TCP", "fd00::2", 0, 0, 0)]
        )
        self.assertEqual(one.addresses, [IPv4Address("TCP", "10.0.0.2", 1801)])
        self.assertEqual(six.addresses, [IPv6Address("TCP", "fd00::2", 0, 0, 0)])
        self.assertEqual(datagram.addresses, [IPv4Address("UDP", "10.0.0.3", 3527)])

    def test_one_lookup_a_name(self) -> None:
        """A name is looked up once at a time, for any number of callers, case-insensitively."""
        receivers = [self.ask(name) for name in ("beta", "BETA", "beta")]
        self.assertEqual(len(self.threads), 1)
        self.answer()
        self.assertEqual([len(each.addresses) for each in receivers], [2, 2, 2])
        self.ask("beta")
        self.answer()
        self.assertEqual(self.looked_up, ["beta", "beta"])

    def test_no_thread(self) -> None:
        """Where the system starts no thread a name is unknown for the first time, and looked up after it."""
        refusals = [RuntimeError("can't start new thread")] * 2

        def start(work: Callable[[], None]) -> None:
            if refusals:
                raise refusals.pop()
            self.threads.append(work)

        self.names = NameService(self.clock, start=start, lookup=self.lookup)
        refused = [self.ask(name) for name in ("beta", "beta", "gamma")]
        self.clock.advance(0)
        self.assertEqual([(each.is_complete, each.addresses) for each in refused], [(True, [])] * 3)
        self.clock.advance(FIRST_REST)
        found = [self.ask(name) for name in ("beta", "gamma")]
        self.answer()
        self.assertEqual([len(each.addresses) for each in found], [2, 1])

    def test_six_hundred_names_without_an_answer(self) -> None:
        """Names that the system is silent about delay a name that it knows by two seconds at most."""
        for number in range(600):
            self.ask(f"dead{number}")
        self.threads.clear()
        for _ in range(3):
            found = self.ask("beta")
            self.clock.advance(YOUNG)
            for thread in self.threads:
                thread()
            self.threads.clear()
            self.assertEqual(len(found.addresses), 2)

    def test_names_that_had_no_answer_before(self) -> None:
        """They get a part of the threads only, for however long they stay there."""
        for number in range(600):
            self.ask(f"dead{number}")
        self.answer()
        self.clock.advance(FIRST_REST)
        for number in range(600):
            self.ask(f"dead{number}")
        for _ in range(100):
            self.clock.advance(YOUNG)
        # These threads stay in the system for good.
        self.assertEqual(len(self.threads), WORKERS - RESERVED)
        self.threads.clear()
        found = self.ask("beta")
        self.answer()
        self.assertEqual(len(found.addresses), 2)

    def test_the_last_question_first(self) -> None:
        """The name that was asked for last is looked up first, also when it was asked for before."""
        for number in range(AT_ONCE + 3):
            self.ask(f"name{number}")
        self.ask(f"name{AT_ONCE}")
        self.answer()
        waited = [f"name{number}" for number in (AT_ONCE, AT_ONCE + 2, AT_ONCE + 1)]
        self.assertEqual(self.looked_up[-3:], waited)

    def test_names_that_no_caller_waits_for(self) -> None:
        """A name whose callers left before its lookup began is not looked up."""
        for number in range(AT_ONCE):
            self.ask(f"name{number}")
        self.ask("gone").resolution.cancel()
        found = self.ask("beta")
        self.answer()
        self.assertNotIn("gone", self.looked_up)
        self.assertEqual(len(found.addresses), 2)

    def test_a_name_without_an_answer_rests(self) -> None:
        """It is answered as unknown for a time that doubles, and found once the system knows it."""
        self.ask("late")
        self.answer()
        rest = FIRST_REST
        while rest < 4 * LONGEST_REST:
            self.clock.advance(min(rest, LONGEST_REST) - 0.1)
            before = len(self.looked_up)
            self.assertTrue(self.ask("late").is_complete)
            self.assertEqual(len(self.looked_up), before)
            self.clock.advance(0.1)
            self.ask("late")
            self.answer()
            self.assertEqual(len(self.looked_up), before + 1)
            rest *= 2
        self.known["late"] = ["10.0.0.4"]
        self.clock.advance(LONGEST_REST)
        found = self.ask("late")
        self.answer()
        self.assertEqual(len(found.addresses), 1)

    def test_late_answer(self) -> None:
        """An answer that comes after its caller has left is there for the next one."""
        receiver = self.ask("beta")
        receiver.resolution.cancel()
        self.answer()
        self.assertFalse(receiver.is_complete)
        self.assertEqual(len(self.ask("beta").addresses), 2)
        self.assertEqual(self.looked_up, ["beta"])
        self.clock.advance(KEPT)
        self.assertFalse(self.ask("beta").is_complete)

    def test_bounds(self) -> None:
        """Running look-ups and waiting names are limited; a further name is reported as unknown."""
        receivers = [self.ask(f"name{number}") for number in range(QUESTIONS)]
        self.assertEqual(len(self.threads), AT_ONCE)
        for _ in range(100):
            self.clock.advance(YOUNG)
        self.assertEqual(len(self.threads), WORKERS)
        self.assertTrue(self.ask("one too many").is_complete)
        receivers.pop().resolution.cancel()
        receivers.append(self.ask("in its place"))
        self.answer()
        self.assertTrue(all(each.is_complete for each in receivers))

    def test_callers_that_leave_are_forgotten(self) -> None:
        """A name that is asked for again and again while its lookup lasts has one caller waiting."""

        def leave() -> ref[Any]:
            resolution = self.ask("beta").resolution
            resolution.cancel()
            return ref(resolution)

        left = [leave() for _ in range(100)]
        self.assertEqual(sum(each() is not None for each in left), 1)

    def test_not_a_name(self) -> None:
        """An invalid name is refused at once; a name that the system refuses is unknown."""
        self.assertRaises(UnicodeError, self.ask, "a..b")
        self.known = {}
        receiver = self.ask("beta")
        self.answer()
        self.assertEqual((receiver.addresses, receiver.is_complete), ([], True))


BLOCKED = """
import socket, threading
from twisted.internet import reactor
from msmq.net.name_service import NameService
from msmq.net.resolver import HostResolver

forever = threading.Event()
reactor.installNameResolver(NameService(reactor, lookup=lambda *asked: forever.wait()))
resolver = HostResolver(reactor, reactor.nameResolver)
from twisted.internet.defer import Deferred
for number in range(600):
    Deferred.fromCoroutine(resolver.resolve(f"dead{number}"))
reactor.callLater(0, reactor.stop)
reactor.run()
print("stopped")
"""


class ProcessTests(SynchronousTestCase):
    """A process whose resolver never answers."""

    def test_process_ends_with_pending_lookups(self) -> None:
        """It ends when its reactor stops, though six hundred lookups have no answer."""
        done = subprocess.run(
            [sys.executable, "-c", BLOCKED], timeout=60, capture_output=True, text=True, check=False
        )
        self.assertEqual((done.stdout, done.returncode), ("stopped\n", 0), done.stderr)
