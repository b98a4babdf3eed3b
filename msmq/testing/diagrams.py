"""Generates diagrams of state machines from the code, so that they always match it.

C{python -m msmq.testing.diagrams docs/spec/machines.md} writes the page that the project keeps; a test
compares the two.  L{find_machines}, L{read_machine}, L{to_mermaid} and L{to_dot} also work for machines of
other packages. The diagrams are text; generating them does not need Graphviz.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
from automat import TypeMachine

PACKAGES = ("msmq.session", "msmq.queues", "msmq.discovery")
"""Packages with state machines; they are pure, so importing them has no side effects."""

IGNORING = ("nothing", "returns(None)")
"""Names of outputs that do nothing."""


@attrs.frozen
class Transition:
    """The transition of one input in one state.

    @ivar does: the names of the functions that it calls, in order; empty if it does nothing.
    """

    origin: str
    happens: str
    target: str
    does: tuple[str, ...]

    @property
    def is_ignored(self) -> bool:
        """Whether the input changes nothing in this state."""
        return self.origin == self.target and not self.does


@attrs.frozen
class Machine:
    """A state machine for drawing.

    @ivar name: its qualified name, for example C{msmq.session.ping_initiator.PING_MACHINE}.
    @ivar summary: the first line of its module's docstring.
    @ivar inputs: every input and the first line of its description, in the order of their declaration.
    @ivar states: every state, the initial one first, then in the order in which inputs reach them.
    """

    name: str
    summary: str
    inputs: tuple[tuple[str, str], ...]
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]

    @property
    def missing(self) -> list[tuple[str, str]]:
        """The pairs of state and input without a transition; a total machine has none."""
        answered = {(transition.origin, transition.happens) for transition in self.transitions}
        return [
            (state, happens)
            for state in self.states
            for happens, _ in self.inputs
            if (state, happens) not in answered
        ]

    @property
    def final_states(self) -> list[str]:
        """The states without outgoing transitions."""
        left = {each.origin for each in self.transitions if each.origin != each.target}
        return [state for state in self.states if state not in left]

    @property
    def arrows(self) -> list[tuple[str, str, str]]:
        """The start, end and label of each arrow.

        Inputs with equal transitions share an arrow; inputs that change nothing have none.
        """
        shared: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
        for each in self.transitions:
            if not each.is_ignored:
                shared.setdefault((each.origin, each.target, each.does), []).append(each.happens)
        return [
            (origin, target, " / ".join(filter(None, (", ".join(inputs), ", ".join(does)))))
            for (origin, target, does), inputs in shared.items()
        ]

    def ignored_in(self, state: str) -> list[str]:
        """The inputs that change nothing in this state."""
        return [each.happens for each in self.transitions if each.origin == state and each.is_ignored]


def find_machines(packages: Iterable[str] = PACKAGES) -> Iterator[Machine]:
    """Find every machine that a module of these packages has as a global name."""
    seen: set[int] = set()
    for package in packages:
        for module in _modules(package):
            for name, value in vars(module).items():
                if isinstance(value, TypeMachine) and id(value) not in seen:
                    seen.add(id(value))
                    yield read_machine(f"{module.__name__}.{name}", value, _first_line(module))


def _modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for found in sorted(pkgutil.walk_packages(root.__path__, package + "."), key=lambda each: each.name):
        yield importlib.import_module(found.name)


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def read_machine(name: str, machine: TypeMachine[Any, Any], summary: str = "") -> Machine:
    """Read a machine that Automat's typed builder has built."""
    automaton = machine.__automat_automaton__
    protocol = automaton.initialState.builder.inputProtocol
    inputs = tuple(
        (happens, _first_line(member))
        for happens, member in vars(protocol).items()
        if inspect.isfunction(member) and not happens.startswith("_")
    )
    position = {happens: number for number, (happens, _) in enumerate(inputs)}
    found = [
        Transition(
            origin.name,
            happens,
            target.name,
            tuple(output.name for output in outputs if output.name not in IGNORING),
        )
        for origin, happens, target, outputs in automaton.allTransitions()
    ]
    found.sort(key=lambda each: (each.origin, position[each.happens]))
    states = _in_order_of_reach(automaton.initialState.name, found)
    found.sort(key=lambda each: (states.index(each.origin), position[each.happens]))
    return Machine(name, summary, inputs, tuple(states), tuple(found))


def _in_order_of_reach(initial: str, transitions: Sequence[Transition]) -> list[str]:
    states = [initial]
    for state in states:
        states.extend(
            dict.fromkeys(
                each.target for each in transitions if each.origin == state and each.target not in states
            )
        )
    unreachable = {each.origin for each in transitions}.difference(states)
    return states + sorted(unreachable)


def to_mermaid(machine: Machine) -> str:
    """The machine as a Mermaid state diagram, without the inputs that change nothing."""
    number = {state: f"s{position}" for position, state in enumerate(machine.states)}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {number[state]}' for state in machine.states]
    lines.append(f"    [*] --> {number[machine.states[0]]}")
    lines += [
        f"    {number[origin]} --> {number[target]} : {label}" for origin, target, label in machine.arrows
    ]
    lines += [f"    {number[state]} --> [*]" for state in machine.final_states]
    return "\n".join(lines) + "\n"


def to_dot(machine: Machine) -> str:
    """The machine as a Graphviz digraph, without the inputs that change nothing."""
    lines = [f"digraph {_quoted(machine.name)} {{", "    node [shape=box, style=rounded];"]
    lines.append("    start [shape=point];")
    final = machine.final_states
    lines += [
        f"    {_quoted(state)}{' [peripheries=2]' if state in final else ''};" for state in machine.states
    ]
    lines.append(f"    start -> {_quoted(machine.states[0])};")
    lines += [
        f"    {_quoted(origin)} -> {_quoted(target)} [label={_quoted(label)}];"
        for origin, target, label in machine.arrows
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def page(machines: Iterable[Machine]) -> str:
    """The whole page: the diagram of each machine, its inputs, and the inputs ignored in each state."""
    parts = [
        "# The state machines\n\n"
        "This page is made from the code by `python -m msmq.testing.diagrams docs/spec/machines.md`.\n"
        "An arrow is labelled with an input and, after the slash, with its outputs.\n"
        "An output may cause another input, which is processed after the transition.\n"
        "Each machine is total: an input that no arrow of a state shows changes nothing there.\n"
    ]
    for machine in machines:
        parts.append(f"## `{machine.name}`\n\n{machine.summary}\n")
        parts.append(f"```mermaid\n{to_mermaid(machine)}```\n")
        rows = "".join(f"| `{happens}` | {meaning} |\n" for happens, meaning in machine.inputs)
        parts.append(f"| Input | Meaning |\n|---|---|\n{rows}")
        rows = "".join(f"| `{state}` | {_listed(machine.ignored_in(state))} |\n" for state in machine.states)
        parts.append(f"| State | Ignores |\n|---|---|\n{rows}")
        parts.append(f"For Graphviz:\n\n```dot\n{to_dot(machine)}```\n")
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Write the page to the given file, or to standard output."""
    text = page(find_machines())
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
