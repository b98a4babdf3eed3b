"""The LDIF of C{msmq enterprise ... --dry-run} does with OpenLDAP's own tool what the command would do."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.ldif import to_ldif
from msmq.directory.ldap.enrollment.plan import EnrollmentStep, MemberRequest
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SUFFIX, SlapdServer


class EnrollmentLdifTests(TestCase):
    """A directory of its own, which is stopped while the tool changes it."""

    timeout = 120

    def setUp(self) -> None:
        self.server = SlapdServer()
        self.addCleanup(self.server.remove)
        self.secret = Path(self.mktemp())
        self.secret.write_text(PASSWORD)

    def enrollment(self, *, dry_run: bool = False) -> Enrollment:
        """As one call of the command has it, with a connection of its own."""
        settings = LdapSettings(
            self.server.servers, SUFFIX, bind_name=ADMINISTRATOR, password_file=self.secret
        )
        connection = LdapConnection(settings, reactor)
        self.addCleanup(connection.close)
        return Enrollment(Operations(connection), uuid4, dry_run=dry_run)

    def apply(self, steps: list[EnrollmentStep]) -> None:
        """Have the tool do what was planned."""
        self.assertNotEqual(steps, [])
        self.server.stop()
        self.server.modify(to_ldif((step.change, step.waits) for step in steps))
        self.server.start()

    async def test_applied(self) -> None:
        """Entries are added, modified and deleted; the command has nothing left to do."""
        wanted = MemberRequest(("London",), routing=True, dns_name="alpha.example.com")
        self.apply(await self.enrollment(dry_run=True).join("ALPHA", wanted))
        self.assertEqual(await self.enrollment().join("ALPHA", wanted), [])
        moved = MemberRequest(sites=("Paris",), routing=True)
        self.apply(await self.enrollment(dry_run=True).change("ALPHA", moved))
        self.assertEqual(await self.enrollment().change("ALPHA", moved), [])
        self.apply(await self.enrollment(dry_run=True).leave("ALPHA"))
        self.assertEqual(await self.enrollment().leave("ALPHA"), [])
