"""Resolves computer names in separate threads, so that names without an answer do not delay others.

C{getaddrinfo} of the system blocks, for half a minute and more where no name server answers, and cannot be
cancelled. In the thread pool of the reactor a few such names keep every other name, file and certificate
waiting, and the process from ending.
"""

from __future__ import annotations

import socket
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Final, Protocol, TypeAlias

import attrs
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IResolutionReceiver,
)
from zope.interface import implementer

YOUNG: Final = 2.0
"""Seconds within which most lookups end; see L{AT_ONCE}."""

AT_ONCE: Final = 16
"""Lookups that run at once at first; when they take longer than that, others begin."""

WORKERS: Final = 128
"""Lookups that run at once at most, each in a thread."""

RESERVED: Final = 64
"""The part of these that is reserved for names that are not known to fail."""

QUESTIONS: Final = 10_000
"""Limit on names that wait or are cached; further names are answered as unknown."""

FIRST_REST: Final = 5.0
"""Seconds for which an unknown name is not looked up again; doubled with each failure."""

LONGEST_REST: Final = 60.0
"""The maximum of that time."""

KEPT: Final = 30.0
"""Seconds for which an answer is cached that came after its callers had timed out."""

_FAMILIES: Final = {
    frozenset([IPv4Address]): socket.AF_INET,
    frozenset([IPv6Address]): socket.AF_INET6,
}
_KINDS: Final = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}
_ADDRESSES: Final[dict[int, Callable[..., IPv4Address | IPv6Address]]] = {
    socket.AF_INET: IPv4Address,
    socket.AF_INET6: IPv6Address,
}

_Found: TypeAlias = Sequence[tuple[int, tuple[Any, ...]]]
GetAddressInfo: TypeAlias = Callable[
    [str, int, int, int], Sequence[tuple[int, int, int, str, tuple[Any, ...]]]
]
"""C{socket.getaddrinfo} with a name, a port, a family and a kind of socket."""


class LookupReactor(Protocol):
    """The part of the reactor that a L{NameService} uses."""

    def seconds(self) -> float: ...

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> object: ...

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None: ...


@attrs.frozen
class _Question:
    """The arguments of a lookup."""

    name: str
    port: int
    family: int
    transport: str


@implementer(IHostResolution)
@attrs.define(eq=False, weakref_slot=True)
class _Waiting:
    """One caller that waits for an answer."""

    name: str
    receiver: IResolutionReceiver | None
    transport: str

    def cancel(self) -> None:
        """Stop waiting; the lookup continues, and its answer is cached."""
        self.receiver = None

    def answer(self, found: _Found) -> None:
        """Report the addresses."""
        receiver, self.receiver = self.receiver, None
        if receiver is None:
            return
        for family, address in found:
            receiver.addressResolved(_ADDRESSES[family](self.transport, *address))
        receiver.resolutionComplete()


@attrs.frozen
class _Remembered:
    """The result of the last lookup of a name.

    @ivar failures: how often in succession no address was found.
    @ivar until: when it is looked up again, in seconds of the reactor.
    """

    found: _Found
    failures: int
    until: float


def start_thread(work: Callable[[], None]) -> None:
    """Run a function in a daemon thread."""
    Thread(target=work, name="msmq name lookup", daemon=True).start()


@attrs.frozen
class _Running:
    """A lookup in its thread.

    @ivar is_doubtful: whether the last lookup of this name failed.
    @ivar since: when it began, in seconds of the reactor.
    """

    is_doubtful: bool
    since: float


@implementer(IHostnameResolver)
class NameService:
    """The name service of the system, for a reactor.

    At most L{AT_ONCE} lookups begin at once and L{WORKERS} run, one for each name however many callers ask.
    The latest request is looked up first: callers have a time limit, and a name is dropped if its callers
    time out before its lookup begins. A name that had no answer the last time comes after the others, and
    leaves L{RESERVED} threads to them; for a time that doubles from L{FIRST_REST} to
    L{LONGEST_REST} seconds it is answered as unknown without a lookup. The threads are daemons: neither
    C{reactor.stop} nor the end of the process waits for them.

    C{reactor.installNameResolver(NameService(reactor))} makes every endpoint of a reactor use it.
    """

    def __init__(
        self,
        reactor: LookupReactor,
        *,
        start: Callable[[Callable[[], None]], None] = start_thread,
        lookup: GetAddressInfo = socket.getaddrinfo,
    ) -> None:
        """Look up names.

        @param reactor: receives the answers, and measures the time.
        @param start: runs a function in a thread.
        @param lookup: asks the system.
        """
        self._reactor = reactor
        self._start = start
        self._lookup = lookup
        self._asked: dict[_Question, list[_Waiting]] = {}
        self._remembered: OrderedDict[_Question, _Remembered] = OrderedDict()
        # In the order of the requests.
        self._fresh: dict[_Question, None] = {}
        self._doubtful: deque[_Question] = deque()
        self._running: dict[_Question, _Running] = {}
        self._is_woken = False

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        """Look up a name; see C{IHostnameResolver}.

        @raise UnicodeError: it is not a valid name.
        """
        hostName.encode("idna")
        family = _FAMILIES.get(frozenset(addressTypes or ()), socket.AF_UNSPEC)
        question = _Question(hostName.lower(), portNumber, family, transportSemantics)
        waiting = _Waiting(hostName, resolutionReceiver, transportSemantics)
        resolutionReceiver.resolutionBegan(waiting)
        callers = self._asked.get(question)
        if callers is not None:
            callers[:] = [each for each in callers if each.receiver is not None]
            callers.append(waiting)
            if question in self._fresh:
                del self._fresh[question]
                self._fresh[question] = None
            return waiting
        if len(self._asked) >= QUESTIONS:
            self._drop_abandoned()
        remembered = self._remembered.get(question)
        if remembered is not None and self._reactor.seconds() < remembered.until:
            waiting.answer(remembered.found)
        elif len(self._asked) >= QUESTIONS:
            waiting.answer(())
        else:
            self._asked[question] = [waiting]
            if remembered is not None and remembered.failures:
                self._doubtful.append(question)
            else:
                self._fresh[question] = None
            self._run_next()
        return waiting

    def _run_next(self) -> None:
        """Begin lookups within the limits, some of which end with time."""
        now = self._reactor.seconds()
        ages = [now - each.since for each in self._running.values()]
        young = sum(age < YOUNG for age in ages)
        doubtful = sum(each.is_doubtful for each in self._running.values())
        while young < AT_ONCE and len(self._running) < WORKERS:
            if self._fresh:
                question, is_doubtful = self._fresh.popitem()[0], False
            elif self._doubtful and doubtful < WORKERS - RESERVED:
                question, is_doubtful = self._doubtful.popleft(), True
            else:
                return
            if self._is_abandoned(question):
                del self._asked[question]
                continue
            young += 1
            doubtful += is_doubtful
            self._run(question, _Running(is_doubtful, now))
        if not self._is_woken and (self._fresh or self._doubtful):
            self._is_woken = True
            self._reactor.callLater(YOUNG, self._wake)

    def _wake(self) -> None:
        self._is_woken = False
        self._run_next()

    def _is_abandoned(self, question: _Question) -> bool:
        return all(each.receiver is None for each in self._asked[question])

    def _drop_abandoned(self) -> None:
        """Drop pending names that no caller waits for."""
        abandoned = {each for each in (*self._fresh, *self._doubtful) if self._is_abandoned(each)}
        for question in abandoned:
            del self._asked[question]
        self._fresh = {each: None for each in self._fresh if each not in abandoned}
        self._doubtful = deque(each for each in self._doubtful if each not in abandoned)

    def _run(self, question: _Question, running: _Running) -> None:
        self._running[question] = running

        def work() -> None:
            found: list[tuple[int, tuple[Any, ...]]] = []
            try:
                kind = _KINDS.get(question.transport, socket.SOCK_STREAM)
                for family, _, _, _, address in self._lookup(
                    question.name, question.port, question.family, kind
                ):
                    if family in _ADDRESSES:
                        found.append((family, address))
            except (OSError, ValueError):
                # gaierror and UnicodeError among them: the name has no address.
                pass
            finally:
                self._reactor.callFromThread(self._finished, question, found)

        try:
            self._start(work)
        except RuntimeError:
            # The system has no thread for it at present; otherwise the name would be looked up forever.
            self._reactor.callLater(0, self._finished, question, ())

    def _finished(self, question: _Question, found: _Found) -> None:
        del self._running[question]
        callers = self._asked.pop(question)
        self._remember(question, found, is_awaited=any(each.receiver is not None for each in callers))
        self._run_next()
        for each in callers:
            each.answer(found)

    def _remember(self, question: _Question, found: _Found, *, is_awaited: bool) -> None:
        before = self._remembered.pop(question, None)
        now = self._reactor.seconds()
        if not found:
            failures = 1 if before is None else before.failures + 1
            # Enough doublings to reach the maximum, without overflow of a float.
            rest = min(FIRST_REST * 2.0 ** min(failures - 1, 32), LONGEST_REST)
            self._remembered[question] = _Remembered(found, failures, now + rest)
        elif not is_awaited:
            self._remembered[question] = _Remembered(found, 0, now + KEPT)
        if len(self._remembered) > QUESTIONS:
            self._remembered.popitem(last=False)
