"""The table of attributes in C{docs/spec/directory.md} agrees with the schemas and with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import attrs
from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.enrollment.plan import CONFIGURATION_ATTRIBUTES
from msmq.directory.ldap.entries.attribute_mapping import CLASSES, COMPUTER_ATTRIBUTES, NAME_EXTENSION
from msmq.directory.ldap.entries.settings_entries import SETTINGS_ATTRIBUTES
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import Equal, of_class
from msmq.directory.ldap.transport.wire import Scope
from tests.servers import samba

DOCUMENTS: Final = Path(__file__).resolve().parents[2] / "docs"

ACTIVE_DIRECTORY: Final = {
    ("2.5.5.1", "127"): "Object(DS-DN)",
    ("2.5.5.4", "20"): "String(Teletex)",
    ("2.5.5.8", "1"): "Boolean",
    ("2.5.5.9", "2"): "Integer",
    ("2.5.5.9", "10"): "Enumeration",
    ("2.5.5.10", "4"): "String(Octet)",
    ("2.5.5.11", "24"): "String(Generalized-Time)",
    ("2.5.5.12", "64"): "String(Unicode)",
    ("2.5.5.15", "66"): "String(NT-Sec-Desc)",
    ("2.5.5.17", "4"): "String(Sid)",
}
"""[MS-ADTS] 3.1.1.2.2.2 the names of syntaxes, by attributeSyntax and oMSyntax."""

RFC_4517: Final = {
    "7": {"Boolean"},
    "12": {"Object(DS-DN)"},
    "15": {"String(Unicode)", "String(Teletex)"},
    "27": {"Integer", "Enumeration"},
    "40": {"String(Octet)", "String(NT-Sec-Desc)", "String(Sid)"},
}
"""The syntaxes that the schema for OpenLDAP has for them."""


@attrs.frozen
class Row:
    """An attribute of the table."""

    classes: tuple[str, ...]
    syntax: str
    is_list: bool


def table() -> dict[str, Row]:
    """The rows by the names of their attributes."""
    rows: dict[str, Row] = {}
    for line in (DOCUMENTS / "spec" / "directory.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and "`" in cells[1]:
            for name in re.findall(r"`([^`]+)`", cells[1]):
                classes = tuple(re.findall(r"`([^`]+)`", cells[0]))
                rows[name] = Row(classes, cells[2], cells[1].endswith("[]"))
    return rows


class AttributeTableTests(SynchronousTestCase):
    """The table, compared with the code and with the schema that is shipped."""

    def test_all_attributes(self) -> None:
        """Each attribute that the code names has a row, in the class that it belongs to."""
        rows = table()
        for kept in CLASSES.values():
            columns = [column.attribute for column in kept.columns.values()]
            for name in (*columns, *kept.links.values()):
                self.assertIn(name, rows)
                self.assertTrue(not rows[name].classes or kept.name in rows[name].classes, name)
        for name in (
            *SETTINGS_ATTRIBUTES[1:],
            *CONFIGURATION_ATTRIBUTES,
            *COMPUTER_ATTRIBUTES,
            NAME_EXTENSION,
        ):
            self.assertIn(name, rows)

    def test_shipped_schema(self) -> None:
        """The schema for OpenLDAP has each of MSMQ's attributes, in its class, with its syntax."""
        text = (DOCUMENTS / "ldap" / "msmq-schema.ldif").read_text().replace("\n  ", " ")
        reported = dict(re.findall(r"olcAttributeTypes: \( \S+ NAME '([^']+)'(.*)\)", text))
        classes = dict(re.findall(r"olcObjectClasses: \( \S+ NAME '([^']+)'(.*)\)", text))
        for name, row in table().items():
            if name not in reported:
                # Of the core schema, or of the server itself.
                self.assertIn(name, ("cn", "whenCreated", "whenChanged", "description", "member"))
                continue
            syntax = re.search(r"SYNTAX \S+\.(\d+)", reported[name])
            assert syntax is not None
            self.assertIn(row.syntax, RFC_4517[syntax[1]], name)
            self.assertEqual("SINGLE-VALUE" not in reported[name], row.is_list, name)
            for kept in row.classes:
                self.assertRegex(classes[kept], rf"\b{name}\b")


class DomainSchemaTests(TestCase):
    """The table, compared with the schema of a real domain."""

    timeout = 120

    async def test_syntaxes(self) -> None:
        """Each attribute has the syntax, and as many values, as the domain has it."""
        server = samba.shared_server()
        if not server.is_running:
            server.start()
        secret = Path(self.mktemp())
        secret.write_text(samba.PASSWORD)
        settings = LdapSettings(
            (LdapServer(samba.ADDRESS, samba.PORT),), bind_name=samba.ADMINISTRATOR, password_file=secret
        )
        connection = LdapConnection(settings, reactor)
        self.addCleanup(connection.close)
        operations = Operations(connection)
        schema = f"CN=Schema,{(await operations.root()).configuration}"
        for name, row in table().items():
            wanted = of_class("attributeSchema", Equal("lDAPDisplayName", name.encode()))
            asked = ("attributeSyntax", "oMSyntax", "isSingleValued")
            [entry] = await operations.find(schema, Scope.CHILDREN, wanted, asked)
            syntax, number, is_single = ((entry.first(each) or b"").decode() for each in asked)
            self.assertEqual(ACTIVE_DIRECTORY[syntax, number], row.syntax, name)
            self.assertEqual(is_single == "FALSE", row.is_list, name)
