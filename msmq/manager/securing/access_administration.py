"""Access rights and certificates of a queue manager, for operators."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from msmq.interfaces.manager.access_administration import IAccessAdministration
from msmq.interfaces.manager.access_summaries import AccessList, AccessVerdict, CertificateSummary
from msmq.manager.applications.checked_calls import checked
from msmq.manager.assembly.security_parts import SecurityParts
from msmq.manager.performer import Performer
from msmq.manager.securing.certificates import DAYS, Certificates
from msmq.manager.securing.permissions import Permissions
from msmq.structures.status import MQError, Status


@implementer(IAccessAdministration)
class AccessAdministration:
    """Changes and explains the access lists and the certificates of one queue manager.

    Every method raises MQError with MQ_ERROR_SERVICE_NOT_AVAILABLE while the queue manager does not run.
    """

    def __init__(self, performer: Performer, security: SecurityParts) -> None:
        self._performer = performer
        self._security = security

    @checked
    async def acl(self, path: str) -> AccessList:
        """See L{IAccessAdministration.acl}."""
        return await self.permissions.show(path)

    @checked
    async def allow(self, path: str, principal: str, rights: Sequence[str]) -> AccessList:
        """See L{IAccessAdministration.allow}."""
        return await self.permissions.change(path, principal, rights, is_denial=False)

    @checked
    async def deny(self, path: str, principal: str, rights: Sequence[str]) -> AccessList:
        """See L{IAccessAdministration.deny}."""
        return await self.permissions.change(path, principal, rights, is_denial=True)

    @checked
    async def revoke(self, path: str, principal: str) -> AccessList:
        """See L{IAccessAdministration.revoke}."""
        return await self.permissions.remove(path, principal)

    @checked
    async def as_sddl(self, entries: Sequence[tuple[str, str, Sequence[str]]]) -> str:
        """See L{IAccessAdministration.as_sddl}."""
        return await self.permissions.as_sddl(entries)

    @checked
    async def replace(self, path: str, sddl: str, *, dry_run: bool = False) -> AccessList:
        """See L{IAccessAdministration.replace}."""
        return await self.permissions.replace(path, sddl, dry_run=dry_run)

    @checked
    async def why(self, path: str, principal: str, right: str) -> AccessVerdict:
        """See L{IAccessAdministration.why}."""
        return await self.permissions.why(path, principal, right)

    def certificates(self) -> list[CertificateSummary]:
        """See L{IAccessAdministration.certificates}."""
        return self._certificates.summaries()

    @checked
    def certificate(self, fingerprint: str = "") -> CertificateSummary:
        """See L{IAccessAdministration.certificate}."""
        return self._certificates.summary(fingerprint)

    @checked
    async def create_certificate(
        self, *, sid: str = "", name: str = "", days: int = DAYS, renew: bool = False
    ) -> CertificateSummary:
        """See L{IAccessAdministration.create_certificate}."""
        certificates = self._certificates
        return await certificates.create(sid=sid, name=name, days=days, renew=renew)

    @checked
    def import_certificate(
        self, data: bytes, *, password: bytes | None = None, sid: str = ""
    ) -> CertificateSummary:
        """See L{IAccessAdministration.import_certificate}."""
        return self._certificates.add(data, password=password, sid=sid)

    @checked
    def delete_certificate(self, fingerprint: str) -> CertificateSummary:
        """See L{IAccessAdministration.delete_certificate}."""
        return self._certificates.remove(fingerprint)

    @checked
    async def publish_certificate(self, fingerprint: str = "") -> CertificateSummary:
        """See L{IAccessAdministration.publish_certificate}."""
        publisher = self._running.messages.publisher
        if publisher is None:
            raise _no_certificates()
        return await publisher.publish(fingerprint)

    @property
    def _running(self) -> SecurityParts:
        self._performer.check_running()
        return self._security

    @property
    def permissions(self) -> Permissions:
        """The access lists.

        @raise MQError: MQ_ERROR_ILLEGAL_OPERATION without access control.
        """
        permissions = self._running.permissions
        if permissions is None:
            raise MQError(Status.MQ_ERROR_ILLEGAL_OPERATION, "this queue manager has no access control")
        return permissions

    @property
    def _certificates(self) -> Certificates:
        certificates = self._running.messages.certificates
        if certificates is None:
            raise _no_certificates()
        return certificates


def _no_certificates() -> MQError:
    return MQError(Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED, "this queue manager keeps no certificates")
