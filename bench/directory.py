"""A large estate read from a real directory server: 10,000 queues in one read, and 100,000 users in another;
a distribution list of 4,000 queues, and one with all users as members, which is refused.

The reads go through C{LdapDirectory} in a process with a reactor and the garbage collector of a server.
Each iteration of the reactor is measured in processor time, since on a busy machine its elapsed time is also
that of other processes. Each read is repeated, so that memory that grows shows. OpenLDAP (Debian's package
C{slapd}) holds the entries; a server is started and filled for the benchmark.

C{python bench/directory.py [--queues N] [--users N] [--rounds N]} prints the figures; nothing here fails.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import QueueObject, UserObject
from msmq.membership.queries import SortOrder
from msmq.net.clock import SystemClock
from msmq.service.process.collector import settle
from msmq.structures.names.format_name import DistributionListFormatName
from rig.measuring import Result, Turns, table

QUEUES: Final = 10_000
USERS: Final = 100_000
COMPUTERS: Final = 200
"""Queue managers that the queues are spread over."""
ROUNDS: Final = 5
LISTED: Final = 4_000
"""Queues of a distribution list; a message is sent to at most 4,096."""
SUFFIX: Final = "dc=example,dc=com"
"""Of the estate that docs/ldap ships."""
LONGEST_TURN: Final = 20.0
"""Limit on an iteration of the reactor, in milliseconds."""
TAKEN_AT_ONCE: Final = 100
"""Objects of a read that the benchmark's caller processes in one iteration."""

_READS: Final[dict[str, tuple[type[DirectoryObject], tuple[str, ...] | None, tuple[SortOrder, ...]]]] = {
    "queues": (QueueObject, None, ()),
    "queues by path": (QueueObject, ("pathname", "label"), (SortOrder(1), SortOrder(0))),
    "users": (UserObject, ("security_identifier",), ()),
    "users by SID": (UserObject, ("security_identifier",), (SortOrder(1),)),
}
_LISTS: Final = {"members of a list": 8 * 10**6, "members of a list of users": 8 * 10**6 + 1}
"""Distribution lists, and the numbers that their identifiers are made of."""


@attrs.frozen
class Reading:
    """Measurements of one
    read.

    @ivar seconds: on the clock; C{processor} of the processor.
    @ivar longest: the longest iteration, in milliseconds of processor time.
    @ivar collecting: the longest garbage collection, which is part of an iteration, in the same unit.
    @ivar resident: the most memory of the process so far, in MB.
    """

    found: int
    seconds: float
    processor: float
    longest: float
    collecting: float
    resident: float


class _Collections:
    def __init__(self) -> None:
        self._began = 0.0
        self.longest = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.longest = max(self.longest, time.thread_time() - self._began)


def entries(queues: int, users: int) -> Iterator[str]:
    """The estate as LDIF."""

    def identifier(number: int) -> str:
        return base64.b64encode(UUID(int=number).bytes_le).decode()

    for number in range(COMPUTERS):
        computer = f"cn=QM{number:04},cn=Computers,{SUFFIX}"
        yield (
            f"dn: {computer}\nobjectClass: computer\ncn: QM{number:04}\n"
            f"dNSHostName: qm{number:04}.example.com\nobjectGUID:: {identifier(1 + 2 * number)}\n\n"
            f"dn: cn=msmq,{computer}\nobjectClass: mSMQConfiguration\ncn: msmq\n"
            f"objectGUID:: {identifier(2 + 2 * number)}\n\n"
        )
    for number in range(queues):
        yield (
            f"dn: cn=orders.{number:05},cn=msmq,cn=QM{number % COMPUTERS:04},cn=Computers,{SUFFIX}\n"
            f"objectClass: mSMQQueue\ncn: orders.{number:05}\n"
            f"objectGUID:: {identifier(10**6 + number)}\nmSMQLabelEx: orders of branch {number}\n"
            f"mSMQQueueType:: {identifier(7)}\nmSMQJournal: FALSE\nmSMQAuthenticate: TRUE\n"
            "mSMQPrivacyLevel: 1\nmSMQTransactional: TRUE\nmSMQBasePriority: 0\nmSMQQueueQuota: 1024\n\n"
        )
    for (name, number), members in zip(
        _LISTS.items(),
        (
            (
                f"cn=orders.{each:05},cn=msmq,cn=QM{each % COMPUTERS:04},cn=Computers,{SUFFIX}"
                for each in range(min(queues, LISTED))
            ),
            (f"cn=user {each:06},cn=Users,{SUFFIX}" for each in range(users - 1)),
        ),
        strict=True,
    ):
        yield (
            f"dn: cn={name},{SUFFIX}\nobjectClass: groupOfNames\nobjectClass: group\n"
            f"cn: {name}\nobjectGUID:: {identifier(number)}\n"
        )
        yield from (f"member: {each}\n" for each in members)
        yield "\n"
    # The estate that is shipped has one user.
    for number in range(users - 1):
        sid = bytes.fromhex("010500000000000515000000010000000200000003000000") + number.to_bytes(4, "little")
        yield (
            f"dn: cn=user {number:06},cn=Users,{SUFFIX}\nobjectClass: person\nobjectClass: user\n"
            f"cn: user {number:06}\nsn: {number:06}\nobjectGUID:: {identifier(10**7 + number)}\n"
            f"objectSid:: {base64.b64encode(sid).decode()}\n\n"
        )


async def _resolve(directory: LdapDirectory, name: str) -> int:
    """The members of a distribution list; none if it is refused."""
    try:
        return len(
            await directory.resolve_distribution_list(DistributionListFormatName(UUID(int=_LISTS[name])))
        )
    except DirectoryError as error:
        if "a message is sent to at most" not in error.detail:
            raise
        return 0


async def _take_all(directory: LdapDirectory, reactor: Any, name: str) -> int:
    of, attributes, order = _READS[name]
    handle = await directory.begin_read(of, (), attributes, order)
    found = 0
    try:
        while True:
            await directory.read_next(handle)
            found += 1
            if not found % TAKEN_AT_ONCE:
                await deferLater(reactor, 0)
    except DirectoryError as error:
        if error.result is not DirectoryOperationResult.END_OF_DATA:
            raise
    await directory.end_read(handle)
    return found


async def _read(directory: LdapDirectory, reactor: Any, name: str, turns: Turns) -> Reading:
    collections = _Collections()
    turns.begin()
    seconds, processor = time.perf_counter(), time.process_time()
    found = await (_resolve(directory, name) if name in _LISTS else _take_all(directory, reactor, name))
    await deferLater(reactor, 0)
    gc.callbacks.clear()
    return Reading(
        found,
        time.perf_counter() - seconds,
        time.process_time() - processor,
        turns.longest * 1000,
        collections.longest * 1000,
        _most_resident(),
    )


def _most_resident() -> float:
    # ru_maxrss is also that of the process before it ran this program.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def _measure_reads(reactor: Any, settings: LdapSettings, name: str, rounds: int) -> None:
    turns = reactor._poller = Turns(reactor._poller)
    directory = LdapDirectory(settings, SystemClock(), reactor)
    await directory.open()
    settle()
    for _ in range(rounds):
        reading = await _read(directory, reactor, name, turns)
        sys.stdout.write(json.dumps(attrs.asdict(reading)) + "\n")
        sys.stdout.flush()
    await directory.close()


def _run(port: int, password: Path, administrator: str, name: str, rounds: int) -> None:
    """Be the process that reads."""
    from twisted.internet import reactor

    settings = LdapSettings(
        (LdapServer("127.0.0.1", port),), SUFFIX, bind_name=administrator, password_file=password
    )

    def ended(outcome: object) -> None:
        if isinstance(outcome, Failure):
            sys.stderr.write(outcome.getTraceback())
        reactor.stop()

    def begin() -> None:
        Deferred.fromCoroutine(_measure_reads(reactor, settings, name, rounds)).addBoth(ended)

    reactor.callWhenRunning(begin)
    reactor.run()


def readings(port: int, password: Path, administrator: str, name: str, rounds: int) -> list[Reading]:
    """Measurements of the same read, repeated in a fresh process."""
    done = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).resolve()), "--read", name, "--port", str(port)),
            *("--password", str(password), "--bind-dn", administrator, "--rounds", str(rounds)),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
    )
    return [Reading(**json.loads(line)) for line in done.stdout.splitlines()]


def measure(queues: int = QUEUES, users: int = USERS, rounds: int = ROUNDS) -> list[Result]:
    """Each read in a process of its own; nothing where OpenLDAP is not installed."""
    # The server that tests start.
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from twisted.trial.unittest import SkipTest

    from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SlapdServer

    try:
        server = SlapdServer()
    except SkipTest as reason:
        sys.stderr.write(f"directory: {reason}\n")
        return []
    password = server.directory / "password"
    password.write_text(PASSWORD)
    try:
        server.stop()
        server.add("".join(entries(queues, users)))
        server.start()
        results: list[Result] = []
        for name in (*_READS, *_LISTS):
            results += _results(name, readings(server.port, password, ADMINISTRATOR, name, rounds))
    finally:
        server.remove()
    return results


def _results(name: str, found: list[Reading]) -> list[Result]:
    def middle(of: Callable[[Reading], float]) -> float:
        return sorted(map(of, found))[len(found) // 2]

    title = f"{found[0].found:,} {name}"
    longest = max(reading.longest for reading in found)
    return [
        Result(f"{title}: processor", middle(lambda each: each.processor), "s"),
        Result(f"{title}: on the clock", middle(lambda each: each.seconds), "s"),
        Result(
            f"{title}: longest turn",
            longest,
            "ms",
            goal=f"at most {LONGEST_TURN:g}",
            is_reached=longest <= LONGEST_TURN,
        ),
        Result(f"{title}: longest collection in a turn", max(reading.collecting for reading in found), "ms"),
        Result(f"{title}: resident after the first read", found[0].resident, "MB"),
        Result(f"{title}: resident after read {len(found)}", found[-1].resident, "MB"),
    ]


def main() -> None:
    """Print the figures, or be the process that reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--read", choices=(*_READS, *_LISTS), help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--password", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bind-dn", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read is not None:
        _run(chosen.port, chosen.password, chosen.bind_dn, chosen.read, chosen.rounds)
        return
    sys.stdout.write(table(measure(chosen.queues, chosen.users, chosen.rounds)) + "\n")


if __name__ == "__main__":
    main()
