"""Creates a directory from its description in a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
from zope.interface import implementer

from msmq.directory.enterprise_copy import EnterpriseCopy
from msmq.directory.enterprise_file import EnterpriseFileError, load_enterprise
from msmq.directory.file import FileDirectory
from msmq.directory.ldap import LdapDirectoryFactory, LdapsDirectoryFactory
from msmq.directory.stated_identifier import stated_identifier
from msmq.errors import MsmqError
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.plugins import DirectoryContext, IDirectoryFactory, IIdentitySource, IProbedDirectory
from msmq.membership.objects import QueueManagerObject
from msmq.plugins import PluginError, check_product, plugins, select_plugin
from msmq.quoting import quoted

NONE: Final = "none"
"""The description that means no directory."""


class DirectoryDescriptionError(MsmqError):
    """A description of a directory is invalid."""


@implementer(IDirectoryFactory, IIdentitySource)
@attrs.frozen
class FileDirectoryFactory:
    """C{file:PATH}: an enterprise that is described in a TOML file."""

    name: str = "file"
    description: str = "an enterprise in one TOML file, which is reloaded when it changes"

    def make_directory(self, argument: str, context: DirectoryContext) -> IDirectory:
        """See L{IDirectoryFactory.make_directory}."""
        return FileDirectory(_path(argument), context.clock, context.reactor, EnterpriseCopy(context.data))

    async def identifier_of(
        self, argument: str, computer_name: str, context: DirectoryContext
    ) -> UUID | None:
        """See L{IIdentitySource.identifier_of}."""
        try:
            file = load_enterprise(_path(argument))
        except EnterpriseFileError as error:
            # A fault elsewhere in the file is no reason not to start ([MS-MQOD] 2.7.4).
            stated = stated_identifier(_path(argument), computer_name)
            if stated is not None:
                return stated
            more = f", and {len(error.problems) - 1} more" if len(error.problems) > 1 else ""
            raise ValueError(
                f"{error.problems[0]}{more}; the first start needs the file, which has the identifier of"
                f" queue manager {computer_name}; later starts do not"
            ) from error
        wanted = computer_name.casefold()
        for each in file.objects:
            if isinstance(each, QueueManagerObject) and each.computer_name.casefold() == wanted:
                return each.identifier
        # msmq never writes the file, so a new identifier could not be stored in it.
        raise ValueError(f"holds no queue manager {computer_name}; add a [[queue_manager]] there")


def _path(argument: str) -> Path:
    if not argument or "\0" in argument:
        raise ValueError("needs the path of a file, as in file:estate.toml")
    return Path(argument)


BUILT_IN: tuple[IDirectoryFactory, ...] = (
    FileDirectoryFactory(),
    LdapDirectoryFactory(),
    LdapsDirectoryFactory(),
)
"""The built-in directories; no plugin can use one of their names."""


def directory_factories() -> Iterator[IDirectoryFactory]:
    """The built-in directories, then those of plugins."""
    yield from BUILT_IN
    yield from plugins(IDirectoryFactory)


def check_directory(description: str) -> None:
    """Check that a description names a directory of this installation.

    @raise DirectoryDescriptionError: it does not.
    """
    if description != NONE:
        _factory(description)


def make_directory(description: str, context: DirectoryContext) -> IDirectory | None:
    """Create the directory that C{NAME:ARGUMENT} describes, without opening it; C{None} for C{none}.

    @raise DirectoryDescriptionError: the name is unknown, or the argument invalid.
    """
    if description == NONE:
        return None
    factory, argument = _factory(description)
    try:
        directory = factory.make_directory(argument, context)
        if factory not in BUILT_IN:
            check_product(IDirectory, directory, plugin=factory.name)
        return directory
    except (ValueError, PluginError) as error:
        raise _unsuitable(description, error) from error


async def identifier_in_directory(
    description: str, computer_name: str, context: DirectoryContext
) -> UUID | None:
    """The identifier of a computer in the described directory; C{None} if it has none.

    @raise DirectoryDescriptionError: the directory cannot be used.
    """
    if description == NONE:
        return None
    factory, argument = _factory(description)
    source = IIdentitySource(factory, None)
    if source is None:
        return None
    try:
        return await source.identifier_of(argument, computer_name, context)
    except ValueError as error:
        raise _unsuitable(description, error) from error


def is_probed(description: str) -> bool:
    """Whether L{probe_directory} would ask something of the described directory.

    @raise DirectoryDescriptionError: the name is unknown.
    """
    return description != NONE and IProbedDirectory(_factory(description)[0], None) is not None


async def probe_directory(description: str, context: DirectoryContext) -> str:
    """Check whether the described directory can be used.

    @return: empty if it can, or if it cannot be checked; otherwise why it cannot be reached.
    @raise DirectoryDescriptionError: the directory cannot be used.
    """
    if description == NONE:
        return ""
    factory, argument = _factory(description)
    probed = IProbedDirectory(factory, None)
    if probed is None:
        return ""
    try:
        return str(await probed.probe(argument, context))
    except ValueError as error:
        raise _unsuitable(description, error) from error


def _factory(description: str) -> tuple[IDirectoryFactory, str]:
    name, _, argument = description.partition(":")
    try:
        return select_plugin(name, IDirectoryFactory, BUILT_IN, kind="directory", reserved=(NONE,)), argument
    except PluginError as error:
        raise _unsuitable(description, error) from error


def _unsuitable(description: str, error: Exception) -> DirectoryDescriptionError:
    return DirectoryDescriptionError(f"directory {quoted(description)}: {error}")
