"""Identity of a queue manager in its directory, read before the server starts."""

from __future__ import annotations

from uuid import UUID

from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.values import unpack_guid
from msmq.directory.ldap.names import CONFIGURATION, child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.certificates import LdapConfigurationError
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces.directory import DirectoryError
from msmq.interfaces.plugins import DirectoryContext


async def identify(settings: LdapSettings, computer_name: str, context: DirectoryContext) -> UUID | None:
    """The objectGUID of the mSMQConfiguration of a computer; C{None} if the queue manager may choose it.

    Where the directory assigns identifiers, and the computer has no such entry yet, an entry without
    attributes is created, so that the queue manager uses the directory's identifier from its first start on.

    @raise ValueError: the directory cannot be reached, or refuses; its text is the reason.
    """
    connection = LdapConnection(settings, context.reactor, context.find_servers)
    try:
        await connection.check()
        return await _identify(Operations(connection), computer_name)
    except DirectoryError as error:
        raise ValueError(error.detail) from error
    except LdapConfigurationError as error:
        raise ValueError(str(error)) from error
    finally:
        connection.close()


async def _identify(operations: Operations, computer_name: str) -> UUID | None:
    try:
        root = await operations.root()
    except DirectoryError as error:
        raise ValueError(
            f"{error.detail.rstrip('.')}; the first start needs the directory, which has or assigns the"
            f" identifier of queue manager {computer_name}; later starts do not"
        ) from error
    computer = await operations.computer(computer_name, (GUID,))
    if computer is None:
        if root.makes_identifiers:
            raise ValueError(
                f"there is no computer {computer_name} in {root.domain}; it joins the domain first, and"
                f" becomes a queue manager with msmq enterprise join {computer_name}"
            )
        return None
    own = child(CONFIGURATION, computer.name)
    if root.makes_identifiers and await operations.entry(own, (GUID,)) is None:
        try:
            await operations.add_if_missing(own, "mSMQConfiguration")
        except DirectoryError as error:
            raise ValueError(
                f"{computer_name} is not a queue manager of {root.domain}, and its account cannot make it"
                f" one: {error.detail}; an administrator does with msmq enterprise join {computer_name}"
            ) from error
    entry = await operations.entry(own, (GUID,))
    value = None if entry is None else entry.first(GUID)
    return None if value is None else unpack_guid(value)
