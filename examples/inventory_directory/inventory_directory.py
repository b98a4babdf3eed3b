"""A directory as a plugin: the queue managers of an inventory, which is a CSV file.

After C{pip install examples/inventory_directory} a configuration says::

    [directory]
    backend = "inventory:inventory.csv"

The file has a line for each queue manager, which may have an address::

    name,identifier,address
    ALPHA,761BB34D-7CC6-4988-BCCF-C0EAF0A2818A,10.1.1.1
    BETA,0A2B6F6E-6B6B-4E0A-8B1F-0F7C6A0B7E55,
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from msmq.interfaces import (
    Attributes,
    DirectoryContext,
    DirectoryEntry,
    DirectoryError,
    DirectoryObject,
    DirectoryOperationResult,
    EnterpriseObject,
    IAddressBook,
    IClock,
    IDirectoryFactory,
    IIdentitySource,
    IProbedDirectory,
    QueueManagerObject,
)
from msmq.testing import MemoryDirectory

COLUMNS = ["name", "identifier", "address"]
ENTERPRISE = EnterpriseObject(name="Inventory", identifier=UUID("5B0E1F52-8F0C-4F0B-9B2C-6A8A3B6C0E11"))


@implementer(IAddressBook)
class InventoryDirectory(MemoryDirectory):
    """A read-only directory; it answers requests from memory, and reads the file once, when it is opened.

    @param path: the file.
    @ivar identifiers: of the queue managers, by their names in capitals.
    """

    name = "inventory"

    def __init__(self, path: Path, clock: IClock) -> None:
        super().__init__(clock)
        self._path = path
        self._addresses: dict[str, str] = {}
        self.identifiers: dict[str, UUID] = {}

    def open(self) -> Deferred[None]:
        """See L{IDirectory.open}: a file that cannot be used is a mistake of the configuration."""
        try:
            self.add(ENTERPRISE)
            with self._path.open(encoding="utf-8", newline="") as file:
                rows = csv.DictReader(file)
                if rows.fieldnames != COLUMNS:
                    raise ValueError(f"the first line is not {','.join(COLUMNS)}")
                for row in rows:
                    self._add(row)
        except (OSError, ValueError, TypeError, DirectoryError) as error:
            problem = f"{self._path} cannot be used: {error}"
            return fail(DirectoryError(DirectoryOperationResult.GENERIC_ERROR, problem))
        return super().open()

    def _add(self, row: dict[str, str]) -> None:
        name, identifier = row["name"], UUID(row["identifier"])
        self.add(QueueManagerObject(identifier=identifier, computer_name=name))
        self.identifiers[name.upper()] = identifier
        if row["address"]:
            self._addresses[name.upper()] = row["address"]

    def address_of(self, computer_name: str) -> str | None:
        """See L{IAddressBook.address_of}."""
        return self._addresses.get(computer_name.partition(".")[0].upper())

    def create(self, created: DirectoryObject, attributes: Attributes = None) -> Deferred[UUID]:
        """See L{IDirectory.create}: refused."""
        return fail(_read_only())

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        """See L{IDirectory.delete}: refused."""
        return fail(_read_only())

    def write(self, written: DirectoryObject, attributes: Attributes = None) -> Deferred[None]:
        """See L{IDirectory.write}: refused."""
        return fail(_read_only())

    def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]
    ) -> Deferred[bool]:
        """See L{IConditionalDirectory.write_if_unchanged}: refused."""
        return fail(_read_only())


def _read_only() -> DirectoryError:
    return DirectoryError(DirectoryOperationResult.GENERIC_ERROR, "the inventory is read only")


@implementer(IDirectoryFactory, IIdentitySource, IProbedDirectory)
class InventoryFactory:
    """C{inventory:FILE}: a CSV file, relative to the working directory."""

    name = "inventory"
    description = "a read-only directory from a CSV file of queue managers"

    def make_directory(self, argument: str, context: DirectoryContext) -> InventoryDirectory:
        """See L{IDirectoryFactory.make_directory}."""
        if not argument:
            raise ValueError("needs a file, as in inventory:inventory.csv")
        return InventoryDirectory(Path(argument), context.clock)

    async def identifier_of(
        self, argument: str, computer_name: str, context: DirectoryContext
    ) -> UUID | None:
        """See L{IIdentitySource.identifier_of}: a queue manager adopts it at its first start."""
        directory = self.make_directory(argument, context)
        try:
            await directory.open()
        except DirectoryError as error:
            raise ValueError(str(error)) from error
        return directory.identifiers.get(computer_name.upper())

    async def probe(self, argument: str, context: DirectoryContext) -> str:
        """See L{IProbedDirectory.probe}: the file is there, and can be used."""
        await self.identifier_of(argument, "", context)
        return ""
