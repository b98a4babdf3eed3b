"""JMESPath expressions over messages, for routing keys and properties."""

from __future__ import annotations

from typing import Any, Final, Self

import attrs
import jmespath
from jmespath.exceptions import JMESPathError

from msmq.bounded_evaluation import BoundedInterpreter
from msmq.interfaces.bridge_messages import MappingError
from msmq.quoting import quoted

LONGEST: Final = 2000
"""The longest expression, in characters."""


@attrs.frozen
class MessageExpression:
    """A compiled JMESPath expression, whose evaluation has a limit: its cost depends on what senders write.

    @ivar text: as it was written.
    """

    text: str
    _compiled: Any = attrs.field(eq=False, repr=False)
    _interpreter: BoundedInterpreter = attrs.field(
        factory=BoundedInterpreter, init=False, eq=False, repr=False
    )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Compile an expression.

        @raise ValueError: it is not JMESPath, or too long; the text says where.
        """
        if len(text) > LONGEST:
            raise ValueError(f"is an expression of {len(text)} characters; the limit is {LONGEST}")
        try:
            return cls(text, jmespath.compile(text))
        except JMESPathError as error:
            raise ValueError(f"is not JMESPath: {' '.join(str(error).split())}") from error

    def value(self, record: dict[str, Any]) -> Any:
        """Evaluate it.

        @raise MappingError: it cannot be applied to this message, or costs too much.
        """
        try:
            return self._interpreter.evaluate(self._compiled.parsed, record)
        except Exception as error:
            # Functions of JMESPath raise what Python does: contains(label, headers.x) without a header x.
            reason = " ".join(str(error).split())
            raise MappingError(f"mapping: {quoted(self.text)} cannot be applied: {reason}") from error

    def text_value(self, record: dict[str, Any]) -> str:
        """Evaluate it to a text; a number is written in decimal digits.

        @raise MappingError: the value is missing, or of another kind.
        """
        value = self.value(record)
        if isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise MappingError(f"mapping: the value of {quoted(self.text)} is {quoted(value)}, it has to be text")
