"""Estates of queue managers under every fault: what was promised has come about, for any seed.

C{MSMQ_SIMULATE} is the number of seeds where it shall be another than usual, C{MSMQ_SIMULATE_FIRST} the first
of them, C{MSMQ_SIMULATE_DRAINING} the number of seeds whose runs also drain queues,
C{MSMQ_SIMULATE_CHANGING} of those that change limits and properties, C{MSMQ_SIMULATE_HANDLING} of those
that also handle messages one by one, and C{MSMQ_SIMULATE_RECOVERING} of those that restore and replace hosts.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.history_checker.operations import read_history
from tests.simulation.disk import SimulatedFile
from tests.simulation.plan import (
    BOTH_FROM,
    CHANGES_FROM,
    DRAINS_FROM,
    HANDLING_FROM,
    RECOVERY_FROM,
    SECOND_FROM,
    Plan,
    Step,
    draw_plan,
)
from tests.simulation.shrinking import shrink
from tests.simulation.world import Result, run_plan

RUNS = int(os.environ.get("MSMQ_SIMULATE", "240"))
FIRST = int(os.environ.get("MSMQ_SIMULATE_FIRST", "0"))
DRAINING = int(os.environ.get("MSMQ_SIMULATE_DRAINING", "60"))
CHANGING = int(os.environ.get("MSMQ_SIMULATE_CHANGING", "60"))
HANDLING = int(os.environ.get("MSMQ_SIMULATE_HANDLING", "20"))
RECOVERING = int(os.environ.get("MSMQ_SIMULATE_RECOVERING", "3"))
PROJECT = Path(__file__).resolve().parent.parent.parent


class RunTestCase(SynchronousTestCase):
    """Runs plans."""

    def setUp(self) -> None:
        """A run excludes from collections what was there before it."""
        self.addCleanup(gc.unfreeze)

    def tearDown(self) -> None:
        """The coroutines of hosts that have no power are closed when they are collected, after the run; one
        may end by resuming another that is closed already, or is being closed, which the product logs.
        """
        for failure in self.flushLoggedErrors(RuntimeError, ValueError):
            message = failure.getErrorMessage()
            self.assertRegex(message, "already awaited coroutine|coroutine already executing")


class AnyFaultsTests(RunTestCase):
    """Seeds, one after the other."""

    def test_all_promises_are_kept(self) -> None:
        """Nothing accepted is lost or doubled, streams stay in order, and every message has one fate."""
        self._try(range(FIRST, FIRST + RUNS))

    def test_drains_keep_them_too(self) -> None:
        """A drained message is in one of both queues, in order, whatever fails or loses power meanwhile."""
        self._try(range(DRAINS_FROM, DRAINS_FROM + DRAINING))

    def test_changes_keep_them_too(self) -> None:
        """Quotas, properties, redirects, pauses, keys and transactions, among faults; also with drains."""
        self._try(range(CHANGES_FROM, CHANGES_FROM + CHANGING))
        self._try(range(BOTH_FROM, BOTH_FROM + CHANGING // 3))

    def test_handling_keeps_them_too(self) -> None:
        """Dead letters that are sent again, moves, poison, journals, readers that pick, cut off forwards."""
        self._try(range(HANDLING_FROM, HANDLING_FROM + HANDLING))

    def test_recoveries_keep_them_too(self) -> None:
        """Hosts that are restored from a backup, or replaced, and acknowledgements that a third host gets."""
        self._try(range(RECOVERY_FROM, RECOVERY_FROM + RECOVERING))
        self._try(range(SECOND_FROM, SECOND_FROM + RECOVERING))

    def _try(self, seeds: range) -> None:
        for seed in seeds:
            plan = draw_plan(seed)
            violations = run_plan(plan).violations
            if violations:
                shortest, command = shrink(plan)
                self.fail("\n".join([f"seed {seed}", command, *(shortest or violations)[:10]]))


class FoundTests(RunTestCase):
    """Seeds that have found faults, as long as they draw the same plans."""

    def test_none_fails_again(self) -> None:
        """FinalAcks that come early, twice or together; a group in the page cache alone; writes that fail and
        are on the disk nevertheless; damage in a queue whose deletion is not stored; a held queue that is
        dispatched before others; MessageIDs that are used again after a restore.
        """
        finals = (12006389, 12006722, 12008698, 12026141)
        for seed in (*finals, 12017194, 12020256, 7000868, 8002643, 15006859, 16120428, 50000023):
            self.assertEqual(run_plan(draw_plan(seed)).violations, [], seed)

    def test_messages_that_a_receiver_refuses(self) -> None:
        """What a receiver refuses since the restore of its sender is reported; nothing else is removed."""
        result = run_plan(draw_plan(50000031))
        self.assertEqual(result.violations, [])
        [removal] = [line for line in result.history if '"remove refused"' in line]
        self.assertIn('"labels": ["5", "6", "7"]', removal)

    def test_a_refusal_for_want_of_space_is_no_fate(self) -> None:
        """A full queue manager refuses a message twice, as its destination or a relay, and takes it later."""
        for seed in (20014823, 20016618):
            self.assertEqual(run_plan(draw_plan(seed)).violations, [], seed)

    def test_results_of_a_full_store(self) -> None:
        """The FinalAck of a message that is received while the store is full follows when it has space, also
        after a power cut.
        """
        for seed in (16540002, 40000725):
            self.assertEqual(run_plan(draw_plan(seed)).violations, [])

    def test_a_disk_that_fails_during_a_start(self) -> None:
        """A start whose commit fails is repeated until the disk works again."""
        self.assertEqual(run_plan(draw_plan(16518793)).violations, [])

    def test_no_message_is_read_without_end(self) -> None:
        """The first acknowledgement of a queue is not in memory, and for another session than the next."""
        result = run_plan(draw_plan(14005299))
        self.assertEqual(result.violations, [])
        self.assertLess(result.events, 10_000)


class InterruptedTests(RunTestCase):
    """Plans that reach what the checker judges."""

    def test_a_commit_that_is_stored_and_not_reported(self) -> None:
        """The power is cut right after the write by which a transaction has forwarded messages: they are
        there, and those that it received are gone.
        """
        steps = [
            Step(0.0, "send", (1, 0, "payments", 5, None, None, False)),
            Step(4.0, "kill", (0, "writes", 1, 1.0, 0.5)),
            Step(4.0, "forward", (0, 1, 5, 0.0, True, 0.0)),
        ]
        result = run_plan(attrs.evolve(draw_plan(HANDLING_FROM + 1), steps=steps, tuning=None, window=64))
        self.assertEqual((result.violations, result.kills), ([], 1))
        operations = read_history(result.history)
        [sending] = [each for each in operations if "received_by" in each.facts]
        self.assertEqual(sending.result, "unknown")
        received = {label for each in operations if each.result == "done" for label in each.labels}
        self.assertEqual(received, {label for label, _ in sending.facts["messages"]})


class DeterminismTests(RunTestCase):
    """The same seed is the same run, to the byte."""

    def test_in_other_processes(self) -> None:
        """Whatever the order of hashes is, and whatever has run before."""
        for seed, hashes in (
            (20, "1"),
            (36, "2"),
            (42, "4711"),
            (16540005, "3"),
            (30000001, "4"),
            (40000002, "5"),
            (50000004, "6"),
        ):
            run_plan(draw_plan(seed + 1))
            digests = {run_plan(draw_plan(seed), with_digest=True).digest}
            command = [sys.executable, "-m", "tests.simulation", "--seed", f"{seed}", "--digest"]
            environment = {**os.environ, "PYTHONHASHSEED": hashes}
            found = subprocess.run(
                command, env=environment, cwd=PROJECT, capture_output=True, text=True, check=True
            )
            digests.add(found.stdout.strip())
            self.assertEqual(len(digests), 1, (seed, digests))

    def test_other_seeds_are_other_runs(self) -> None:
        """A digest says something about the run."""
        self.assertEqual(len({run_plan(draw_plan(seed), with_digest=True).digest for seed in (1, 2, 3)}), 3)


class FileTests(SynchronousTestCase):
    """A file of a simulated disk."""

    def test_used_size(self) -> None:
        """It ends with the last byte that is not zero, in whichever block that is."""
        block = 1 << 16
        for size in (0, 1, block - 1, block, 2 * block + 7):
            for used in {0, 1, block, block + 1, size} & {*range(size + 1)}:
                file = SimulatedFile()
                file.resize(size)
                file.write(max(used - 1, 0), b"x"[:used], is_synced=True)
                self.assertEqual(file.used, used, size)


class ShrinkingTests(SynchronousTestCase):
    """What is printed of a run that fails."""

    def test_shortest_plan(self) -> None:
        """The command has only the steps without which the violation does not come."""
        steps = [Step(float(number), "send", (number,)) for number in range(12)]
        plan = attrs.evolve(draw_plan(7), steps=steps)
        violations, command = shrink(plan, partial(_fails_with, {3, 8}))
        self.assertEqual(command, "python -m tests.simulation --seed 7 --keep 3,8")
        self.assertEqual(violations, ["lost: 3"])

    def test_other_violations_do_not_count(self) -> None:
        """A plan that fails in another way is not a shorter one."""
        plan = attrs.evolve(draw_plan(7), steps=[Step(0.0, "send", (number,)) for number in range(2)])

        def run(tried: Plan) -> Result:
            return _result(["lost: 1" if len(tried.steps) == 2 else "doubled: 1"])

        self.assertEqual(shrink(plan, run), (["lost: 1"], "python -m tests.simulation --seed 7 --keep 0,1"))


def _fails_with(numbers: set[int], plan: Plan) -> Result:
    has = {step.arguments[0] for step in plan.steps}
    return _result(["lost: 3"] if numbers <= has else [])


def _result(violations: list[str]) -> Result:
    return Result(violations, "", 0.0, 0, 0, 0, [])
