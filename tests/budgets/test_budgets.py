"""Hostile input stays within its budgets, and an honest peer is served meanwhile."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from tests.budgets.attacked import AttackedServer
from tests.budgets.attacks import ATTACKS
from tests.budgets.budget import Cost, exceeded, table
from tests.budgets.budgets import ALL, BUDGETS
from tests.budgets.namespace import Namespace

MESSAGES = 300
"""Honest messages, whose cost is the unit of processor time."""


class BudgetTests(SynchronousTestCase):
    """A real server with its default limits, in a network of its own."""

    def test_every_kind(self) -> None:
        """No kind of hostile input costs more than its budget, nor do all of them together; after each the
        honest peer is served as before.
        """
        server = AttackedServer(self, Namespace(self))
        server.longest_turn()
        before = server.use()
        server.exchange(MESSAGES)
        message = (server.use().processor - before.processor) / MESSAGES
        turn = server.longest_turn()
        began = server.use()
        costs = {}
        for name, attack in ATTACKS.items():
            cost = server.measure(attack, message, turn)
            if cost.resident > BUDGETS[name].resident or cost.turn > BUDGETS[name].turn:
                # Memory that its allocator keeps is used again; what was lost would be lost once more. An
                # iteration that other processes held up is short the next time.
                again = server.measure(attack, message, turn)
                least = {key: min(getattr(cost, key), getattr(again, key)) for key in ("resident", "turn")}
                cost = attrs.evolve(cost, **least)
            costs[name] = cost
        costs["all"] = server.cost(began, message, turn=max(cost.turn for cost in costs.values()))
        problems = [problem for name in ATTACKS for problem in exceeded(name, costs[name], BUDGETS[name])]
        problems += exceeded("all", costs["all"], ALL)
        self.assertEqual(problems, [], f"\n{table(costs)}")


class BudgetTableTests(SynchronousTestCase):
    """The comparison itself."""

    COST = Cost(log_lines=1, log_bytes=1, resident=1, held=1, left=1, disk=1, processor=1, turn=1)

    def test_each_part_counts(self) -> None:
        """A cost that exceeds one part of its budget is reported with that part, one within it is not."""
        self.assertEqual(exceeded("x", self.COST, self.COST), [])
        for field in attrs.fields(Cost):
            [line] = exceeded("x", attrs.evolve(self.COST, **{field.name: 2}), self.COST)
            self.assertEqual(line, f"x: {field.name} is 2.0, its budget 1")

    def test_each_attack_has_a_budget(self) -> None:
        """No attack is measured without one."""
        self.assertEqual(set(ATTACKS), set(BUDGETS))
