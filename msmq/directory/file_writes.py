"""Attributes that a queue manager has written to objects of an enterprise file, which is never written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final
from uuid import UUID

import attrs

from msmq.membership.attributes import DirectoryObject, directory_attributes
from msmq.membership.objects import QueueManagerObject, QueueObject, UserObject
from msmq.membership.requests import Attributes

OF_THE_FILE: Final[Mapping[type[DirectoryObject], frozenset[str]]] = {
    QueueManagerObject: frozenset(
        {
            "computer_name",
            "qualified_computer_name",
            "site_identifier_list",
            "routing_server",
            "in_routing_server_identifier_list",
            "out_routing_server_identifier_list",
            "connected_network_identifier_list",
        }
    ),
    UserObject: frozenset({"certificate_digest_list", "certificates"}),
}
"""Attributes that a file always has: a value that was written lasts until the file changes."""


_NEVER_STATED: Final[Mapping[type[DirectoryObject], frozenset[str]]] = {
    QueueManagerObject: frozenset({"queue_manager_quota", "journal_quota"}),
    QueueObject: frozenset(
        {
            "label",
            "type",
            "journaling",
            "quota",
            "journal_quota",
            "authentication",
            "privacy_level",
            "transactional",
            "qualified_pathname",
            "security",
        }
    ),
}
"""Attributes that no file has: the queue manager has them in its own store or configuration."""


def stated_attributes(held: DirectoryObject) -> frozenset[str]:
    """The attributes of an object of a file, apart from those that have a default for want of a key."""
    return directory_attributes(type(held)) - _NEVER_STATED.get(type(held), frozenset())


def kept_attributes(written: DirectoryObject, attributes: Attributes) -> Attributes:
    """The attributes of a write, without the quotas of a queue manager, which are those of its configuration.

    @param attributes: as of L{msmq.interfaces.directory.IDirectory.write}.
    """
    if not isinstance(written, QueueManagerObject):
        return attributes
    names = directory_attributes(QueueManagerObject) if attributes is None else attributes
    return tuple(name for name in names if name not in _NEVER_STATED[QueueManagerObject])


class WrittenAttributes:
    """The written attributes by object, so that they can be written again to the next content of the file."""

    def __init__(self) -> None:
        self._written: dict[UUID, tuple[DirectoryObject, frozenset[str]]] = {}

    def __contains__(self, identifier: UUID) -> bool:
        """Whether attributes of this object were written."""
        return identifier in self._written

    def add(self, identifier: UUID, written: DirectoryObject, attributes: Attributes) -> None:
        """Record a write; attributes of earlier writes to the object stay.

        @param attributes: as of L{msmq.interfaces.directory.IDirectory.write}.
        """
        names = directory_attributes(type(written)) if attributes is None else frozenset(attributes)
        if (former := self._written.get(identifier)) is not None:
            before, others = former
            written = attrs.evolve(written, **{name: getattr(before, name) for name in others - names})
            names |= others
        self._written[identifier] = written, names

    def discard(self, identifier: UUID) -> None:
        """Drop what was written to an object."""
        self._written.pop(identifier, None)

    def for_content(self, identifiers: Collection[UUID]) -> Iterator[tuple[DirectoryObject, tuple[str, ...]]]:
        """The writes to repeat on a new content of the file; objects that it lacks are dropped.

        @param identifiers: of the objects in the new content.
        """
        for identifier, (written, names) in list(self._written.items()):
            if identifier in identifiers:
                yield written, tuple(names - OF_THE_FILE.get(type(written), frozenset()))
            else:
                del self._written[identifier]
