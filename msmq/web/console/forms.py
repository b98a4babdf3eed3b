"""Forms of changes, whose fields are checked: each once, none missing, none that the change does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msmq.control.protocol.refusals import invalid
from msmq.control.server.messages.properties import number
from msmq.quoting import quoted
from msmq.web.access.request import WebRequest

_CHECKED: Final = "true"
_ACCESS: Final = "csrf"


class ChangeForm:
    """The fields of a form.

    Every method raises L{MQError} with MQ_ERROR_INVALID_PARAMETER and the name of the field.
    """

    def __init__(self, request: WebRequest) -> None:
        self._fields = {name: values for name, values in request.form().items() if name != _ACCESS}

    def text(self, name: str) -> str:
        """A field that has to be filled in."""
        value = self.optional(name)
        if not value:
            raise invalid(f"the field {name} is empty")
        return value

    def optional(self, name: str) -> str:
        """A field that may be empty."""
        values = self._fields.pop(name, [""])
        if len(values) > 1:
            raise invalid(f"the field {name} is given {len(values)} times")
        return values[0]

    def flag(self, name: str) -> bool:
        """Whether a box is checked."""
        value = self.optional(name)
        if value not in ("", _CHECKED):
            raise invalid(f"the field {name} is {_CHECKED} or absent, not {quoted(value)}")
        return value == _CHECKED

    def number(self, name: str) -> int:
        """A whole number, at least 0; digits may be grouped by spaces."""
        return number(name, "".join(self.text(name).split()))

    def limit(self, name: str) -> int | None:
        """A whole number; an empty field is no limit."""
        text = "".join(self.optional(name).split())
        return number(name, text) if text else None

    def numbers(self, name: str) -> Sequence[int]:
        """The values of the boxes that are checked, at least one, each once."""
        found = list(dict.fromkeys(number(name, value) for value in self._fields.pop(name, [])))
        if not found:
            raise invalid("no message is selected")
        return found

    def end(self) -> None:
        """Refuse further fields."""
        for name in self._fields:
            raise invalid(f"there is no field {quoted(name)} here")
