"""Evaluation of a JMESPath expression with a limit on its cost.

Callers that may only read state such expressions, and those of a route apply to what any sender has written.

The length of an expression bounds nothing: each C{join} in another one, and each projection of a projection,
multiplies the length of what is there. A value may have the same part many times, so a comparison or a text
of it can cost far more than it took to build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, Final

from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.functions import Functions
from jmespath.visitor import Options, TreeInterpreter

from msmq.quoting import quoted

STEPS: Final = 200_000
"""Limit on steps of one evaluation: parts of the expression that are evaluated, and values that a function,
a comparison or C{[]} goes through. A filter of the longest decoded list takes about 150,000."""

CHARACTERS: Final = 0x1000000
"""Limit on characters that C{join}, C{reverse} and C{to_string} make in one evaluation."""

_VISIT: Final = "visit_"
_CHARACTERS_PER_STEP: Final = 1024
_NUMBER: Final = 8
_LONGEST_QUOTED: Final = 100

_COMPARING: Final = frozenset({"contains", "max", "max_by", "min", "min_by", "sort", "sort_by"})
"""Functions that compare the elements of a list."""


class ExpressionTooCostly(JMESPathError):
    """The evaluation reached a limit."""


class BoundedInterpreter(TreeInterpreter):
    """Evaluates expressions, each within the limits."""

    def __init__(self) -> None:
        super().__init__(Options(custom_functions=_BoundedFunctions(self)))
        self._methods: Mapping[str, Callable[[Any, Any], Any]] = {
            name.removeprefix(_VISIT): getattr(self, name) for name in dir(self) if name.startswith(_VISIT)
        }
        self._steps = 0
        self._characters = 0

    def evaluate(self, parsed: Any, value: object) -> Any:
        """The value of an expression.

        @param parsed: the tree of a compiled expression.
        @raise JMESPathError: L{ExpressionTooCostly}, or the expression cannot be applied to the value.
        """
        self._steps, self._characters = STEPS, CHARACTERS
        return self.visit(parsed, value)

    def visit(self, node: Any, value: Any = None) -> Any:
        """Evaluate a part of the expression; called for each element of a list, so it must be fast."""
        self._steps -= 1
        if self._steps < 0:
            self.spend(0)
        return self._methods[node["type"]](node, value)

    def visit_comparator(self, node: Any, value: Any) -> Any:
        """Evaluate a comparison; C{None} for the order of what has none."""
        comparator = node["value"]
        left = self.visit(node["children"][0], value)
        right = self.visit(node["children"][1], value)
        if comparator not in ("eq", "ne") and not (_is_ordered(left) and _is_ordered(right)):
            return None
        if isinstance(left, str) and isinstance(right, str):
            self.spend(min(len(left), len(right)) // _CHARACTERS_PER_STEP)
        elif isinstance(left, list | dict) and type(left) is type(right) and len(left) == len(right):
            self.weigh(left)
        return self.COMPARATOR_FUNC[comparator](left, right)

    def visit_flatten(self, node: Any, value: Any) -> Any:
        """Evaluate C{[]}."""
        found = self.visit(node["children"][0], value)
        if not isinstance(found, list):
            return None
        parts = [each if isinstance(each, list) else [each] for each in found]
        self.spend(sum(map(len, parts)))
        return [each for part in parts for each in part]

    def weigh(self, value: object, comparisons: int = 1) -> None:
        """Count the steps of comparisons with a value.

        @param comparisons: the number of comparisons of each text in the value.
        """
        for part in self.parts(value):
            if isinstance(part, str):
                self.spend(len(part) // _CHARACTERS_PER_STEP * comparisons)

    def parts(self, value: object) -> Iterator[object]:
        """A value, and all that it contains, each as often as it is there; each takes a step."""
        left = [value]
        while left:
            each = left.pop()
            self.spend(1)
            yield each
            if isinstance(each, dict):
                yield from each
                left += each.values()
            elif isinstance(each, list):
                left += each

    def spend(self, steps: int) -> None:
        """Count steps.

        @raise ExpressionTooCostly: there are too many.
        """
        self._steps -= steps
        if self._steps < 0:
            raise ExpressionTooCostly(f"the expression takes more than {STEPS} steps")

    def produce(self, characters: int) -> None:
        """Count characters of a text that is made.

        @raise ExpressionTooCostly: there are too many.
        """
        self._characters -= characters
        if self._characters < 0:
            raise ExpressionTooCostly(f"the expression makes more than {CHARACTERS} characters")


class _BoundedFunctions(Functions):
    """The functions of JMESPath; none makes, or goes through, more than the limits permit."""

    def __init__(self, budget: BoundedInterpreter) -> None:
        self._budget = budget

    def call_function(self, function_name: str, resolved_args: Iterable[Any]) -> Any:
        """Call a function with its arguments."""
        arguments = list(resolved_args)
        budget = self._budget
        for each in arguments:
            if isinstance(each, list | dict):
                budget.spend(len(each))
            elif isinstance(each, str):
                budget.spend(len(each) // _CHARACTERS_PER_STEP)
        if function_name in _COMPARING:
            for each in arguments:
                if isinstance(each, list):
                    budget.weigh(each, len(each).bit_length())
        match function_name, arguments:
            case "join", [str(glue), list(parts)]:
                budget.produce(len(glue) * len(parts))
                budget.produce(sum(len(each) for each in parts if isinstance(each, str)))
            case "reverse", [str(text)]:
                budget.produce(len(text))
            case "to_string", [value]:
                self._produce_text_of(value)
        try:
            return super().call_function(function_name, arguments)
        except JMESPathTypeError as error:
            # Its text has that of the whole value.
            error.current_value = _named(error.current_value)
            raise

    def _produce_text_of(self, value: object) -> None:
        """Count the characters of the JSON of a value, whose parts may be there many times."""
        for part in self._budget.parts(value):
            self._budget.produce(len(part) if isinstance(part, str) else _NUMBER)


def _is_ordered(value: object) -> bool:
    return isinstance(value, str | Number) and not isinstance(value, bool)


def _named(value: object) -> object:
    """A value in an error, whose own text may be of any size."""
    if isinstance(value, str):
        return quoted(value, _LONGEST_QUOTED)
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return quoted(value, _LONGEST_QUOTED) if isinstance(value, int) else value
