"""IAccessAdministration: the access rights and the certificates of a queue manager."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from zope.interface import Interface

from msmq.interfaces.manager.access_summaries import AccessList, AccessVerdict, CertificateSummary


class IAccessAdministration(Interface):
    """Operators grant and deny rights, and manage the certificates that sign messages.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    def acl(path: str) -> Awaitable[AccessList]:
        """The access list of a queue, or of the queue manager itself, which is named C{.}.

        MQ_ERROR_ILLEGAL_OPERATION if this queue manager has no access control, as of all methods about it.
        """

    def allow(path: str, principal: str, rights: Sequence[str]) -> Awaitable[AccessList]:
        """Grant a principal rights, durably; returns as L{acl}.

        @param principal: a SID or a name.
        @param rights: words, C{send} for example, or names of [MS-MQMQ] 2.2.24.
        @raise MQError: MQ_ERROR_COULD_NOT_GET_USER_SID for an unknown principal,
            MQ_ERROR_INVALID_PARAMETER for an unknown right, MQ_ERROR_PROPERTY_NOTALLOWED where a rule of the
            configuration replaces the descriptor, MQ_ERROR_NO_DS for a public queue while the directory is
            unreachable.
        """

    def deny(path: str, principal: str, rights: Sequence[str]) -> Awaitable[AccessList]:
        """Deny a principal rights, durably; as L{allow}."""

    def revoke(path: str, principal: str) -> Awaitable[AccessList]:
        """Remove all entries of a principal; as L{allow}."""

    def as_sddl(entries: Sequence[tuple[str, str, Sequence[str]]]) -> Awaitable[str]:
        """The access list of a queue with these entries alone, as SDDL; nothing is changed.

        @param entries: C{allow} or C{deny}, a principal and rights, as of L{allow}.
        """

    def replace(path: str, sddl: str, *, dry_run: bool = False) -> Awaitable[AccessList]:
        """Replace owner, list and resource attributes, as far as C{sddl} has them, durably; as L{allow}.

        @param dry_run: change nothing, and return what the list would be.
        @raise MQError: also MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR.
        """

    def why(path: str, principal: str, right: str) -> Awaitable[AccessVerdict]:
        """Whether a principal has a right, and what decides it."""

    def certificates() -> Sequence[CertificateSummary]:
        """The certificates that messages can be signed with, without their keys.

        MQ_ERROR_CERTIFICATE_NOT_PROVIDED if the queue manager has no store for them.
        """

    def certificate(fingerprint: str = "") -> CertificateSummary:
        """One certificate, by at least the first eight hex digits of its fingerprint; by default the one used
        for signing.

        MQ_ERROR_CERTIFICATE_NOT_PROVIDED if there is none.
        """

    def create_certificate(
        *, sid: str = "", name: str = "", days: int = 3650, renew: bool = False
    ) -> Awaitable[CertificateSummary]:
        """Generate a key and the internal certificate of a user, at most one. [MS-MQDMPR] 3.1.1.19.

        MQ_ERROR_INTERNAL_USER_CERT_EXIST if there is one; with C{renew} the new one replaces it.

        @param sid: of the user; by default that of local senders.
        @param name: the subject name; by default the SID.
        """

    def import_certificate(
        data: bytes, *, password: bytes | None = None, sid: str = ""
    ) -> CertificateSummary:
        """Import a certificate with its key from a file: PEM, DER or PKCS#12.

        MQ_ERROR_INVALID_CERTIFICATE with the reason.
        """

    def delete_certificate(fingerprint: str) -> CertificateSummary:
        """Delete a certificate and its key; its registration in a directory stays."""

    def publish_certificate(fingerprint: str = "") -> Awaitable[CertificateSummary]:
        """Register a certificate with its user in the directory. [MS-MQDMPR] 3.1.1.15.

        MQ_ERROR_NO_DS without a directory, MQ_ERROR_DS_ERROR if it refuses the certificate.
        """
