"""Classes of users that map messages: found when a configuration is read, created with their routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import attrs
from zope.interface import Interface

from msmq.bridge.mapping_program import MappingProgram
from msmq.named_objects import NamedObjectError, failure, import_named
from msmq.quoting import quoted


@attrs.frozen
class MappingClass:
    """A class that implements L{msmq.interfaces.IOutwardMapping} or L{msmq.interfaces.IInwardMapping}.

    @ivar name: as the configuration has it.
    """

    name: str
    _make: Callable[[], Any] = attrs.field(eq=False, repr=False)

    @classmethod
    def load(cls, text: str, interface: type[Interface]) -> Self:
        """Import the class.

        @raise ValueError: it cannot be imported, or does not implement the interface.
        """
        try:
            found = import_named(text, "orders:OrderMapping")
        except NamedObjectError as error:
            raise ValueError(f"is {quoted(text)}: {error}") from error
        if not isinstance(found, type) or not interface.implementedBy(found):
            raise ValueError(f"is {quoted(text)}, which is not a class that implements {interface.__name__}")
        return cls(text, found)

    def create(self) -> MappingProgram:
        """An instance for one route.

        @raise NamedObjectError: it cannot be created.
        """
        try:
            return MappingProgram(self.name, self._make())
        except Exception as error:
            raise NamedObjectError(f"mapping {self.name} {failure('cannot be created', error)}") from error
