"""Under any failures in transit, transactional messages arrive exactly once and in order.

Two or three queue managers with slow stores exchange messages while connections break, hosts are cut off,
lose power, stop and start again, and stores fail; meanwhile applications receive, and messages expire.
A run is a schedule, drawn by hypothesis, which prints the shortest failing one as C{MSMQ_REPLAY}.
C{MSMQ_SOAK} overrides the number of runs.
"""

from __future__ import annotations

import ast
import gc
import os
import shlex
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.base_header import INFINITE
from tests.nodes.any_network import DESTINATIONS, QUEUES, World
from tests.nodes.promises import PromiseChecker
from tests.samples import examples

RUNS = examples(60)
HEALING = 1500.0
"""Seconds after which everything has arrived; less than a history of duplicates lasts."""

Schedule = tuple[int, float, int | None, list[tuple[Any, ...]]]
"""How many queue managers, the delay of the network, the largest chunk of a stream, and the steps."""

_HOST = st.integers(0, 2)
_WAY = st.integers(0, 5)
_QUEUE = st.sampled_from(sorted(QUEUES))
_DESTINATION = st.sampled_from(sorted(DESTINATIONS))
_SHORT = st.floats(0.0, 0.3)
_NEVER = st.just(INFINITE)
_TIME = st.integers(1, 40)
_SEND = st.tuples(st.just("send"), _WAY, _DESTINATION, st.integers(1, 9), _NEVER, _NEVER)
_SEND_WITH_LIMITS = st.tuples(
    st.just("send"), _WAY, _DESTINATION, st.integers(1, 9), st.one_of(_NEVER, _TIME), st.one_of(_NEVER, _TIME)
)
_STRAND = st.tuples(st.just("strand"), _WAY, _DESTINATION, st.integers(1, 9))
_RECEIVE = st.tuples(st.just("receive"), _HOST, _QUEUE, st.integers(1, 9))
_WAIT = st.tuples(st.just("wait"), st.one_of(_SHORT, _SHORT, st.floats(0.0, 40.0)))
_TROUBLE = st.one_of(
    st.tuples(st.just("cut"), _WAY),
    st.tuples(st.just("partition"), _WAY, st.floats(0.0, 30.0)),
    st.tuples(st.just("delay"), _WAY, st.floats(0.0, 2.0)),
    st.tuples(st.just("crash"), _HOST),
    st.tuples(st.just("restart"), _HOST),
    st.tuples(st.just("broken"), _HOST, st.floats(0.0, 3.0)),
    st.tuples(st.just("purge"), _HOST, _QUEUE),
)
_STEP = st.one_of(_WAIT, _SEND, _SEND_WITH_LIMITS, _STRAND, _RECEIVE, _TROUBLE, _TROUBLE)
_FULL = st.tuples(st.just("full"), _HOST, st.floats(0.0, 3.0))
_SCHEDULES = st.tuples(
    st.integers(2, 3),
    st.sampled_from((0.0, 0.005, 0.1)),
    st.sampled_from((None, 100)),
    # Of the worlds in which a store is full less is asked, so most are others.
    st.one_of(
        *[st.lists(_STEP, min_size=10, max_size=40)] * 3,
        st.lists(st.one_of(_STEP, _STEP, _STEP, _FULL), min_size=10, max_size=40),
    ),
)


Conversation: TypeAlias = tuple[list[tuple[float, bytes]], list[tuple[float, bytes]]]
"""What the initiator and the acceptor of a connection wrote, and when."""


class AnyNetworkTests(SynchronousTestCase):
    """Some queue managers, and everything that can come between them."""

    def test_transfer(self) -> None:
        """After everything has healed, what was promised has come about, and nothing else."""
        replay = os.environ.get("MSMQ_REPLAY")
        if replay is not None:
            self.run_through(ast.literal_eval(replay))
            return
        try:
            self.any_schedule()
        except BaseExceptionGroup as group:
            # trial prints no more of a group than its own text.
            raise self.failureException("\n".join(map(str, [group, *group.exceptions]))) from group

    @settings(
        max_examples=RUNS,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(_SCHEDULES)
    def any_schedule(self, schedule: Schedule) -> None:
        """One run."""
        try:
            self.run_through(schedule)
        except Exception as error:
            raise self.failureException(f"{error}\nMSMQ_REPLAY={shlex.quote(repr(schedule))}") from error

    def setUp(self) -> None:
        gc.freeze()
        self.addCleanup(gc.unfreeze)

    def run_through(self, schedule: Schedule) -> list[Conversation]:
        """One run; answers with what each connection carried."""
        # Those of a run that failed before it looked at them are no failure of this one.
        self.flushLoggedErrors()
        written = self._written(schedule)
        # A Deferred whose failure is never handled reports it when it is freed, which is in this run.
        gc.collect()
        # What is left now is not of this run, and need not be looked at after the next.
        gc.freeze()
        errors = self.flushLoggedErrors()
        self.assertEqual([str(error.value) for error in errors], [])
        return written

    def _written(self, schedule: Schedule) -> list[Conversation]:
        hosts, delay, chunk, steps = schedule
        world = World(hosts, delay, chunk)
        for step in steps:
            world.step(step)
        world.clock.advance(HEALING)
        PromiseChecker(world).check()
        return [(link.initiator.written, link.acceptor.written) for link in world.network.links]

    def test_the_same_schedule_is_the_same_run(self) -> None:
        """To the byte, so what is printed can be run again."""
        schedule: Schedule = (
            3,
            0.005,
            100,
            [
                *(("send", way, queue, 5, INFINITE, INFINITE) for way in range(6) for queue in QUEUES),
                ("wait", 0.05),
                ("crash", 1),
                ("receive", 2, "payments", 3),
                ("send", 1, "letters", 3, 2, INFINITE),
                ("partition", 2, 3.5),
                ("restart", 0),
                ("broken", 2, 1.0),
                ("purge", 1, "letters"),
            ],
        )
        self.assertEqual(self.run_through(schedule), self.run_through(schedule))

    def test_expiry_over_a_failing_store(self) -> None:
        """Messages acknowledged in order do not expire while the store fails."""
        self.run_through(
            (
                3,
                0.0,
                None,
                [
                    ("send", 2, "payments", 3, 1, INFINITE),
                    ("wait", 0.25),
                    ("broken", 2, 1.0),
                ],
            )
        )

    def test_refusal_over_a_failing_store(self) -> None:
        """A refused message that comes again, since its refusal could not be stored, has one event."""
        self.run_through(
            (
                2,
                0.005,
                None,
                [
                    ("send", 0, "missing", 1, INFINITE, INFINITE),
                    ("wait", 2.0),
                    ("send", 0, "missing", 9, INFINITE, INFINITE),
                    ("wait", 0.0095),
                    ("broken", 1, 0.5),
                ],
            )
        )
