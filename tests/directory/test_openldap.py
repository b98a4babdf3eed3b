"""A directory in a real OpenLDAP server keeps the contract, with the configuration that the guide ships."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from twisted.trial.unittest import TestCase

from msmq.directory.ldap.mapping import GUID
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.values import pack_guid
from tests.directory.ldap_contract import LdapDirectoryContract
from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SUFFIX, shared_server

_numbers: Final = count(1)


async def make_base(operations: Operations, base: str) -> None:
    """Put an estate without anything into the directory."""
    for name, kept in (
        (base, "container"),
        (child("Computers", base), "container"),
        (child("Users", base), "container"),
        (configuration := child("Configuration", base), "container"),
        (child("Sites", configuration), "sitesContainer"),
        (services := child("Services", configuration), "container"),
        (child("MsmqServices", services), "mSMQEnterpriseSettings"),
    ):
        values = {GUID: [pack_guid(uuid4())]} if kept == "mSMQEnterpriseSettings" else {}
        await operations.add(name, kept, values)


class OpenLdapDirectoryTests(LdapDirectoryContract, TestCase):
    """The directory of an estate without Active Directory."""

    async def setUp(self) -> None:  # type: ignore[override]
        self.server = shared_server()
        secret = Path(self.mktemp())
        secret.write_text(f"{PASSWORD}\n")
        base = child(f"test {next(_numbers)}", SUFFIX)
        self.set_up(
            LdapSettings("127.0.0.1", self.server.port, SUFFIX, bind_name=ADMINISTRATOR, password_file=secret)
        )
        await make_base(self.operations, base)
        self.set_up(
            LdapSettings("127.0.0.1", self.server.port, base, bind_name=ADMINISTRATOR, password_file=secret)
        )

    async def disconnect(self) -> None:
        self.addCleanup(self._start)
        self.server.stop()

    async def reconnect(self) -> None:
        self._start()

    def _start(self) -> None:
        if not self.server.is_running:
            self.server.start()
