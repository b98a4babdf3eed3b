"""Plans the mSMQSettings of a queue manager in its sites. [MS-MQDSSM] 3.1.6.1.1.3 and 3.1.6.7.1.9."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msmq.directory.ldap.entries.attribute_mapping import GUID, SERVICE_TYPE
from msmq.directory.ldap.entries.values import BOOLEAN
from msmq.directory.ldap.names import SETTINGS, child, folded, value_at
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify, Values

SETTINGS_SOURCES: Final = {
    "mSMQServices": SERVICE_TYPE,
    "mSMQRoutingService": "mSMQRoutingServices",
    "mSMQDsService": "mSMQDsServices",
    "mSMQDependentClientService": "mSMQDependentClientServices",
}
"""The attributes of an mSMQSettings, with the attributes of the mSMQConfiguration that they copy."""

SETTINGS_ATTRIBUTES: Final = ("objectClass", "mSMQQMID", *SETTINGS_SOURCES)
"""The attributes that L{settings_changes} uses."""


def is_server(configuration: Entry) -> bool:
    """Whether a queue manager needs an mSMQSettings in each of its sites. [MS-MQDSSM] 3.1.6.20.1."""
    return any(
        configuration.first(source) == b"TRUE"
        for attribute, source in SETTINGS_SOURCES.items()
        if attribute != "mSMQServices"
    )


def settings_names(computer: str, site: str) -> tuple[str, str, str]:
    """The servers of a site, a computer among them, and its mSMQSettings, by their names. [MS-MQDSSM] 2.2.1.

    @param site: the distinguished name of the site.
    """
    servers = child("Servers", site)
    server = child(computer, servers)
    return servers, server, child(SETTINGS, server)


def settings_values(configuration: Entry) -> Values:
    """The attributes of an mSMQSettings. [MS-MQDSSM] 3.1.6.1.1.3.

    Without an objectGUID, which a domain gives to an entry that it has created, C{mSMQQMID} is missing.
    """
    values: dict[str, Sequence[bytes]] = {}
    identifier = configuration.first(GUID)
    if identifier is not None:
        values["mSMQQMID"] = (identifier,)
    for attribute, source in SETTINGS_SOURCES.items():
        default = b"0" if attribute == "mSMQServices" else BOOLEAN.pack(False)[0]
        values[attribute] = (configuration.first(source) or default,)
    return values


def settings_changes(
    configuration: Entry, sites: Iterable[str], held: Iterable[Entry]
) -> list[Add | Modify | Delete]:
    """Plan the changes after which a queue manager has an mSMQSettings in each of its sites, and no other.

    @param configuration: its mSMQConfiguration, with its roles.
    @param sites: the distinguished names of its sites.
    @param held: all its mSMQSettings, and the existing L{settings_names} of each site; with
        C{SETTINGS_ATTRIBUTES}.
    @return: the changes in the order of their application; empty if there is nothing to change.
    """
    computer = value_at(configuration.name, 1)
    known = {folded(entry.name): entry for entry in held}
    wanted = [settings_names(computer, site) for site in sites] if is_server(configuration) else []
    values = settings_values(configuration)
    kept = {folded(settings) for _, _, settings in wanted}
    changes: list[Add | Modify | Delete] = [
        Delete(entry.name) for name, entry in known.items() if is_settings(entry) and name not in kept
    ]
    for servers, server, settings in wanted:
        entry = known.get(folded(settings))
        if entry is not None:
            other = {name: each for name, each in values.items() if set(entry.all(name)) != set(each)}
            if other:
                changes.append(Modify(settings, other))
            continue
        for place, kind in ((servers, "serversContainer"), (server, "server")):
            if folded(place) not in known:
                changes.append(Add(place, {"objectClass": (kind.encode(),)}))
        changes.append(Add(settings, {"objectClass": (b"mSMQSettings",), **values}))
    return changes


def is_settings(entry: Entry) -> bool:
    """Whether an entry is an mSMQSettings."""
    return b"msmqsettings" in {value.lower() for value in entry.all("objectClass")}
