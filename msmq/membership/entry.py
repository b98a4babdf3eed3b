"""Directory entries: the attributes of an object that a read returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.membership.attributes import DirectoryObject, attributes_of_type, directory_attributes

T = TypeVar("T", bound=DirectoryObject)


@attrs.frozen
class DirectoryEntry(Generic[T]):
    """rDirectoryObject: the attributes that were read and are set. [MS-MQDMPR] 3.1.7.1.20.

    @ivar of: the type of the object.
    @ivar values: the set attributes by name.
    @ivar read: the requested attributes; C{None} for all.
    @raise LocalProtocolError: a name is not a Directory attribute of the type.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE, or MQ_ERROR_LABEL_TOO_LONG, for a value that the
        attribute cannot have.
    """

    of: type[T]
    values: Mapping[str, Any] = attrs.field(repr=False)
    read: tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        check_names(self.of, self.values)
        if self.read is not None:
            check_names(self.of, self.read)
        self._with_defaults()

    @classmethod
    def holding(cls, held: T, attributes: Collection[str] | None = None) -> DirectoryEntry[T]:
        """Entry of the published attributes of C{held}: all Directory attributes, or the named ones."""
        names = directory_attributes(type(held)) if attributes is None else attributes
        check_names(type(held), names)
        values = {name: getattr(held, name) for name in names}
        return DirectoryEntry(
            type(held), {name: value for name, value in values.items() if value is not None}
        )

    def __getitem__(self, name: str) -> Any:
        """The value of an attribute that was read; its default if it is not set.

        @raise LocalProtocolError: it was not requested, so that its value is unknown.
        """
        check_names(self.of, (name,))
        if self.read is not None and name not in self.read:
            raise LocalProtocolError(f"{self.of.TYPE}.{name} was not read from the directory")
        return self.values.get(name, attributes_of_type(self.of)[name].default)

    @property
    def object(self) -> T:
        """The object, with the defaults of its type for unset attributes.

        @raise LocalProtocolError: only some of its attributes were read.
        """
        if self.read is not None:
            raise LocalProtocolError(f"only {', '.join(self.read)} of the {self.of.TYPE} was read")
        return self._with_defaults()

    def onto(self, other: T) -> T:
        """Copy of C{other} with every attribute that was read; unpublished attributes stay."""
        names = directory_attributes(self.of) if self.read is None else self.read
        return attrs.evolve(other, **{name: self[name] for name in names})

    def only(self, attributes: tuple[str, ...] | None) -> DirectoryEntry[T]:
        """The entry restricted to these attributes; C{None} for all."""
        if attributes is None:
            return self
        values = {name: value for name, value in self.values.items() if name in attributes}
        return DirectoryEntry(self.of, values, attributes)

    def _with_defaults(self) -> T:
        return self.of(**self.values)


def check_names(of: type[DirectoryObject], names: Collection[str]) -> None:
    """Check that names are Directory attributes of a type.

    @raise LocalProtocolError: names the first that is not.
    """
    known = directory_attributes(of)
    for name in names:
        if name not in known:
            raise LocalProtocolError(f"{name} is not a Directory attribute of {of.TYPE}")
