"""State machines that find their transitions at once."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from automat import TypeMachine

InputsT = TypeVar("InputsT")
CoreT = TypeVar("CoreT")


def indexed(machine: TypeMachine[InputsT, CoreT]) -> TypeMachine[InputsT, CoreT]:
    """The same machine, which keeps each transition by its state and input once it was taken.

    Automat goes through all transitions for every input: tens of microseconds with a hundred of them,
    more than most of what is done there costs.
    What is kept is bounded by the transitions that the machine has; what has none is still an error.
    """
    automaton = machine.__automat_automaton__
    automaton.outputForInput = cache(automaton.outputForInput)  # type: ignore[method-assign]
    return machine
