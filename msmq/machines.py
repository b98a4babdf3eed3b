"""Index of the transitions of Automat state machines, for speed."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from automat import TypeMachine

InputsT = TypeVar("InputsT")
CoreT = TypeVar("CoreT")


def indexed(machine: TypeMachine[InputsT, CoreT]) -> TypeMachine[InputsT, CoreT]:
    """Make a machine cache each transition by state and input once it was taken.

    Automat goes through all transitions for every input: tens of microseconds with a hundred of them,
    more than most transitions themselves cost. The cache is bounded by the number of transitions; an input
    without a transition is still an error.
    """
    automaton = machine.__automat_automaton__
    automaton.outputForInput = cache(automaton.outputForInput)  # type: ignore[method-assign]
    return machine
