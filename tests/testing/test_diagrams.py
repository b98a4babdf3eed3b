"""The pictures of the state machines say what the code does."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Protocol

from automat import TypeMachine, TypeMachineBuilder
from twisted.trial.unittest import SynchronousTestCase

from msmq.session.ping_initiator import PING_MACHINE
from msmq.testing.diagrams import find_machines, main, page, read_machine, to_dot, to_mermaid

COMMITTED = Path(__file__).resolve().parent.parent.parent / "docs" / "spec" / "machines.md"


class Turnstile(Protocol):
    def coin(self) -> None:
        """A coin was inserted.

        This line is not shown.
        """

    def push(self) -> None:
        """The arm was pushed."""

    def sell(self) -> None:
        """It is sold for scrap."""


def turnstile(*, is_total: bool = True) -> TypeMachine[Turnstile, list[str]]:
    builder = TypeMachineBuilder(Turnstile, list)
    locked, unlocked, gone = builder.state("locked"), builder.state("un locked"), builder.state("gone")

    @locked.upon(Turnstile.coin).to(unlocked)
    def unlock(inputs: Turnstile, core: list[str]) -> None:
        core.append("unlocked")

    @unlocked.upon(Turnstile.coin).loop()
    def give_back(inputs: Turnstile, core: list[str]) -> None:
        core.append("coin")

    locked.upon(Turnstile.push).loop().returns(None)
    unlocked.upon(Turnstile.push).to(locked).returns(None)
    for state in (locked, unlocked):
        state.upon(Turnstile.sell).to(gone).returns(None)
    if is_total:
        for happens in (Turnstile.coin, Turnstile.push, Turnstile.sell):
            gone.upon(happens).loop().returns(None)
    return builder.build()


class ReadMachineTests(SynchronousTestCase):
    """Properties read from a machine."""

    def read(self, machine: TypeMachine[Any, Any]) -> None:
        self.machine = read_machine("turnstile", machine)

    def test_states_and_inputs(self) -> None:
        """The initial state comes first; inputs keep their order and say what they mean."""
        self.read(turnstile())
        self.assertEqual(self.machine.states, ("locked", "un locked", "gone"))
        self.assertEqual(
            self.machine.inputs,
            (
                ("coin", "A coin was inserted."),
                ("push", "The arm was pushed."),
                ("sell", "It is sold for scrap."),
            ),
        )
        self.assertEqual(self.machine.final_states, ["gone"])

    def test_ignored_inputs(self) -> None:
        """An input that changes nothing and does nothing is not an arrow, but is listed."""
        self.read(turnstile())
        self.assertEqual(self.machine.ignored_in("locked"), ["push"])
        self.assertEqual(self.machine.ignored_in("un locked"), [])

    def test_missing_transitions(self) -> None:
        """A machine that is not total says where."""
        self.read(turnstile())
        self.assertEqual(self.machine.missing, [])
        self.read(turnstile(is_total=False))
        self.assertEqual(self.machine.missing, [("gone", "coin"), ("gone", "push"), ("gone", "sell")])

    def test_inputs_that_do_the_same_share_an_arrow(self) -> None:
        """Two inputs with one effect make one arrow with both names."""
        builder = TypeMachineBuilder(Turnstile, list)
        only = builder.state("only")

        def count(inputs: Turnstile, core: list[str]) -> None:
            core.append("counted")

        only.upon(Turnstile.coin).loop()(count)
        only.upon(Turnstile.push).loop()(count)
        only.upon(Turnstile.sell).loop().returns(None)
        self.read(builder.build())
        self.assertEqual(self.machine.arrows, [("only", "only", "coin, push / count")])

    def test_mermaid(self) -> None:
        """Each arrow, once, and the beginning and the end."""
        self.read(turnstile())
        self.assertEqual(
            to_mermaid(self.machine),
            "stateDiagram-v2\n"
            '    state "locked" as s0\n'
            '    state "un locked" as s1\n'
            '    state "gone" as s2\n'
            "    [*] --> s0\n"
            "    s0 --> s1 : coin / unlock\n"
            "    s0 --> s2 : sell\n"
            "    s1 --> s1 : coin / give_back\n"
            "    s1 --> s0 : push\n"
            "    s1 --> s2 : sell\n"
            "    s2 --> [*]\n",
        )

    def test_dot(self) -> None:
        """The same for Graphviz."""
        self.read(turnstile())
        dot = to_dot(self.machine)
        self.assertTrue(dot.startswith('digraph "turnstile" {\n'))
        self.assertIn('    "locked" -> "un locked" [label="coin / unlock"];\n', dot)
        self.assertIn('    "gone" [peripheries=2];\n', dot)
        self.assertEqual(dot.count("->"), 6)


class ProjectTests(SynchronousTestCase):
    """The machines of the project."""

    def test_every_machine_is_total(self) -> None:
        """Every input is handled in every state."""
        for machine in find_machines():
            self.assertEqual(machine.missing, [], machine.name)

    def test_machines_of_the_documents_are_found(self) -> None:
        """Figures 3, 4 and 11 of [MS-MQQB]: the session, and ping."""
        names = {machine.name for machine in find_machines()}
        self.assertLessEqual(
            {"msmq.session.machine.MACHINE", "msmq.session.ping_initiator.PING_MACHINE"}, names
        )

    def test_figure_11(self) -> None:
        """MQQB-3.1.1.1.1.9-01: waiting ends with TRUE for RF=0, with FALSE for RF=1 and for the timer."""
        machine = read_machine("ping", PING_MACHINE)
        arrows = {
            (each.happens, each.target)
            for each in machine.transitions
            if each.origin == "WAITING_FOR_PING_RESPONSE" and each.does
        }
        self.assertEqual(
            arrows,
            {
                ("accepting_response", "TRUE"),
                ("refusing_response", "FALSE"),
                ("ping_response_timer", "FALSE"),
            },
        )

    def test_committed_page_is_what_the_code_gives(self) -> None:
        """If this fails: C{python -m msmq.testing.diagrams docs/spec/machines.md}, and look at the change."""
        self.assertEqual(COMMITTED.read_text(encoding="utf-8"), page(find_machines()))

    def test_command_writes_the_page(self) -> None:
        """To the file that is named, or to standard output."""
        path = Path(self.mktemp())
        self.assertEqual(main([str(path)]), 0)
        output = io.StringIO()
        with redirect_stdout(output):
            main([])
        self.assertEqual(path.read_text(encoding="utf-8"), output.getvalue())
