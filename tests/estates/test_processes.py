"""Scenarios of [MS-MQOD] with real processes: one estate through a bad day, and clocks an hour apart."""

from __future__ import annotations

import unittest
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from tests.estates.processes import TIMERS, Member, home, started, wait_until
from tests.servers.own_address import own_address

MEMBERS: Final = {
    "HANS": ("Head", 31),
    "HEAD": ("Head", 32),
    "NORTH": ("North", 33),
    "SOUTH": ("South", 34),
    "BRANCH": ("Branch", 35),
    "BEA": ("Branch", 36),
}
GATES: Final = {"Head": "HEAD", "North": "NORTH", "South": "SOUTH", "Branch": "BRANCH"}
LINKS: Final = (("Branch", "North", 1), ("North", "Head", 1), ("Branch", "South", 5), ("South", "Head", 1))
DEAD_LETTERS: Final = ".\\system$;deadxact"
JOURNAL: Final = ".\\system$;journal"
FAKETIME: Final = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


def enterprise_file() -> str:
    """Four sites in a ring, a gate in each; the route over North is cheaper than that over South."""
    lines = ["[enterprise]", f'id = "{UUID(int=0xE1)}"']
    for number, site in enumerate(GATES):
        lines += ["[[site]]", f'name = "{site}"', f'id = "{UUID(int=0x51000 + number)}"']
    for one, other, cost in LINKS:
        lines += ["[[link]]", f'sites = ["{one}", "{other}"]', f"cost = {cost}"]
        lines += [f'gates = ["{GATES[one]}", "{GATES[other]}"]']
    for name, (site, number) in MEMBERS.items():
        lines += ["[[queue_manager]]", f'name = "{name}"', f'id = "{UUID(int=0xA000 + number)}"']
        lines += [f'address = "{own_address(number)}"', f'sites = ["{site}"]']
        lines += [f"routing_server = {str(name in GATES.values()).lower()}"]
    return "\n".join(lines) + "\n"


class BadDayTests(SynchronousTestCase):
    """Six processes: HANS in Head sends to BEA in Branch, by the gates of three sites."""

    def setUp(self) -> None:
        running = ExitStack()
        self.addCleanup(running.close)
        directory = home(running)
        file = directory / "enterprise.toml"
        file.write_text(enterprise_file())
        members = [
            Member(directory, name, own_address(number), enterprise=file)
            for name, (_, number) in MEMBERS.items()
        ]
        self.members = {member.name: member for member in started(running, members)}
        self.hans, self.bea = self.members["HANS"], self.members["BEA"]

    def settle(self) -> None:
        """Wait until no member has anything to send."""
        for member in self.members.values():
            wait_until(lambda member=member: not member.waiting(), f"{member.name} has sent all")  # type: ignore[misc]

    def test_a_bad_day(self) -> None:
        """Each scenario on the same estate, one after the other; each ends with nothing in transit."""
        for scenario in (
            self.request_and_response,
            self.several_destinations,
            self.gate_killed,
            self.gate_down,
            self.receiver_frozen,
            self.queue_deleted,
        ):
            with self.subTest(scenario.__name__):
                scenario()
                self.settle()

    def request_and_response(self) -> None:
        """[MS-MQOD] 2.5.8: a request over three gates, and its response."""
        requests = self.bea.create(".\\private$\\requests")
        answers = self.hans.create(".\\private$\\answers")
        [identifier] = self.hans.send(requests, [b"?"], response_queue=answers, delivery="recoverable")
        [(properties, body)] = self.bea.receive(".\\private$\\requests", 1)
        self.assertEqual((body, properties["id"]), (b"?", identifier))
        self.bea.send(properties["response_queue"], [b"!"], correlation_id=identifier)
        [(properties, body)] = self.hans.receive(".\\private$\\answers", 1)
        self.assertEqual((body, properties["correlation_id"], properties["hops"]), (b"!", identifier, 3))

    def several_destinations(self) -> None:
        """One message for three members, one of them down; the acknowledgements go to a fourth."""
        names = [self.members[name].create(".\\private$\\copies") for name in ("NORTH", "SOUTH", "BRANCH")]
        admin = self.bea.create(".\\private$\\acknowledgements")
        self.members["SOUTH"].kill()
        [identifier] = self.hans.send(
            ",".join(names), [b"copy"], delivery="recoverable", acknowledge=["reach"], admin_queue=admin
        )
        acknowledgements = self.bea.receive(".\\private$\\acknowledgements", 2)
        self.members["SOUTH"].start()
        acknowledgements += self.bea.receive(".\\private$\\acknowledgements", 1)
        self.assertEqual({found["correlation_id"] for found, _ in acknowledgements}, {identifier})
        for name in ("NORTH", "SOUTH", "BRANCH"):
            self.assertEqual(self.members[name].bodies(".\\private$\\copies", 1), [b"copy"], name)

    def gate_killed(self) -> None:
        """[MS-MQOD] 2.7.1, 3.5: a gate is killed and restarted while 1,000 transactional messages pass."""
        name = self.bea.create(".\\private$\\orders", transactional=True)
        bodies = [b"%d" % number for number in range(1000)]
        self.hans.send(name, bodies[:500], transactional=True, journal=True)
        self.members["NORTH"].kill()
        self.hans.send(name, bodies[500:], transactional=True, journal=True)
        self.members["NORTH"].start()
        self.assertEqual(self.bea.bodies(".\\private$\\orders", 1000), bodies)
        wait_until(lambda: self.hans.client.queue(JOURNAL)["messages"] == 1000, "every FinalAck is back")
        self.hans.client.purge_queue(JOURNAL)

    def gate_down(self) -> None:
        """A gate is down for a while: messages and acknowledgements wait, and none is lost or circles."""
        self.members["NORTH"].stop()
        name = self.bea.client.queue(".\\private$\\orders")["format_name"]
        bodies = [b"%d" % number for number in range(200)]
        self.hans.send(name, bodies, transactional=True, journal=True, time_to_reach_queue=3600)
        wait_until(lambda: self.members["HEAD"].waiting() >= 200, "all of them wait at the gate of Head")
        self.members["NORTH"].start()
        found = self.bea.receive(".\\private$\\orders", 200)
        self.assertEqual([body for _, body in found], bodies)
        self.assertEqual({properties["hops"] for properties, _ in found}, {3})
        wait_until(lambda: self.hans.client.queue(JOURNAL)["messages"] == 200, "every FinalAck is back")
        self.hans.client.purge_queue(JOURNAL)

    def receiver_frozen(self) -> None:
        """A receiver that is stopped where it is, and goes on later: each message arrives once."""
        name = self.bea.client.queue(".\\private$\\orders")["format_name"]
        self.bea.freeze()
        bodies = [b"%d" % number for number in range(500)]
        self.hans.send(name, bodies, transactional=True)
        wait_until(lambda: self.members["BRANCH"].waiting() >= 500, "all of them wait at the gate of Branch")
        self.bea.thaw()
        self.assertEqual(self.bea.bodies(".\\private$\\orders", 500), bodies)

    def queue_deleted(self) -> None:
        """A queue is deleted while 2,000 messages for it are in transit: every one has a fate."""
        name = self.bea.create(".\\private$\\doomed", transactional=True)
        bodies = [b"%d" % number for number in range(2_000)]
        self.hans.send(name, bodies, transactional=True, dead_letter=True)
        received = self.bea.bodies(".\\private$\\doomed", 500)
        self.bea.client.delete_queue(".\\private$\\doomed")
        self.settle()
        left = len(bodies) - len(received)
        wait_until(lambda: self.hans.client.queue(DEAD_LETTERS)["messages"] == left, f"{left} dead letters")
        dead = self.hans.bodies(DEAD_LETTERS, left, timeout=5)
        self.assertEqual(received, bodies[: len(received)])
        self.assertEqual(sorted(dead, key=int), bodies[len(received) :])


@unittest.skipUnless(FAKETIME, "libfaketime is not installed")
class ClocksTests(SynchronousTestCase):
    """ALPHA's clock is right, BETA's an hour ahead, GAMMA's an hour behind."""

    def test_an_hour_apart(self) -> None:
        """Messages pass both ways; with a limit shorter than the skew the receiver ahead refuses them."""
        running = ExitStack()
        self.addCleanup(running.close)
        directory = home(running)
        skews = {"ALPHA": "", "BETA": "+1h", "GAMMA": "-1h"}
        members = [
            Member(directory, name, own_address(41 + number), environment=_clock(skew), settings=TIMERS)
            for number, (name, skew) in enumerate(skews.items())
        ]
        alpha, beta, gamma = started(running, members)
        for member in (alpha, beta, gamma):
            member.create(".\\private$\\orders", transactional=True)
        for sender, receiver in ((alpha, beta), (beta, alpha), (alpha, gamma), (gamma, beta), (beta, gamma)):
            sender.send(_direct(receiver), [b"1", b"2"], transactional=True)
            self.assertEqual(receiver.bodies(".\\private$\\orders", 2), [b"1", b"2"])
        alpha.send(_direct(gamma), [b"fresh"], transactional=True, time_to_reach_queue=60)
        self.assertEqual(gamma.bodies(".\\private$\\orders", 1), [b"fresh"])
        alpha.send(_direct(beta), [b"late"], transactional=True, time_to_reach_queue=60, dead_letter=True)
        [(properties, body)] = alpha.receive(DEAD_LETTERS, 1)
        self.assertEqual((body, properties["class_name"]), (b"late", "MQMSG_CLASS_NACK_REACH_QUEUE_TIMEOUT"))


def _direct(member: Member) -> str:
    return f"DIRECT=TCP:{member.address}\\private$\\orders"


def _clock(skew: str) -> dict[str, str]:
    if not skew:
        return {}
    return {"LD_PRELOAD": str(FAKETIME[0]), "FAKETIME": skew, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
