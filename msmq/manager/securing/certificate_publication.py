"""Certificates are registered with their users in the directory. [MS-MQDMPR] 3.1.1.15."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.interfaces.manager.access_summaries import CertificateSummary
from msmq.interfaces.security.signing import KeptCertificate
from msmq.manager.securing.certificates import Certificates
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import UserObject
from msmq.membership.requests import Outcome
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.status import MQError, Status
from msmq.transfer.security.certificate_cache import UserCertCache
from msmq.transfer.security.unproven_senders import UnprovenSenders
from msmq.wire.sid import format_sid

ATTEMPTS: Final = 8
"""Attempts to register a certificate while others change those of the same user."""

MOST_BYTES: Final = 1_048_576
"""The limit on the total size of one user's certificates in a directory. [MS-ADA2] 2.587."""

_NO_RIGHT: Final = (
    "the account of this server publishes the certificates of its own user, and those of users that an"
    " administrator has delegated to it"
)
_NO_USER: Final = "it has no user with this SID; [security] sender sets the user of this server"


@attrs.frozen
class UserDirectory:
    """The users of the directory, as functions.

    @ivar read: the user of a SID.
    @ivar write: sets the certificates of a user if they have not changed since the read, which the value of
    the outcome tells; without a read the user is created.
    """

    read: Callable[[bytes], Awaitable[Outcome]]
    write: Callable[[UserObject, DirectoryEntry[UserObject] | None], Awaitable[Outcome]]


class CertificatePublisher:
    """Registers the certificates of this queue manager, so that others accept their signatures.

    @param users: the users in the directory; C{None} in workgroup mode, where publishing is refused.
    @param cache: drops its entries of a user whose certificates have changed, as C{unproven} does.
    """

    def __init__(
        self,
        certificates: Certificates,
        users: UserDirectory | None,
        new_identifier: Callable[[], UUID],
        cache: UserCertCache,
        unproven: UnprovenSenders,
    ) -> None:
        self._certificates = certificates
        self._users = users
        self._new_identifier = new_identifier
        self._cache = cache
        self._unproven = unproven

    async def publish(self, fingerprint: str = "") -> CertificateSummary:
        """Register a certificate with its user in the directory. [MS-MQDMPR] 3.1.1.15.

        @raise MQError: MQ_ERROR_NO_DS without a directory, MQ_ERROR_DS_ERROR if it refuses it.
        """
        kept = self._certificates.find(fingerprint)
        if self._users is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "this queue manager has no directory")
        for _ in range(ATTEMPTS):
            if await self._register(self._users, kept):
                return self._certificates.summary_of(kept)
        raise MQError(
            Status.MQ_ERROR_DS_ERROR,
            f"other clients keep changing the certificates of {format_sid(kept.security_identifier)} "
            f"in the directory: {ATTEMPTS} attempts",
        )

    async def _register(self, users: UserDirectory, kept: KeptCertificate) -> bool:
        """Add a certificate to those of its user in the directory.

        Another queue manager may do the same at this moment, and its changes must not be lost.

        @return: whether it is registered; false if they have changed since they were read.
        """
        sid, certificate = kept.security_identifier, kept.credentials.certificate
        found = await users.read(sid)
        is_new = found.result is DirectoryOperationResult.OBJECT_NOT_FOUND
        entries: tuple[MqUserSignCert, ...] = ()
        if found.succeeded:
            registered = found.value.values.get("certificates")
            entries = () if registered is None else registered.certificates
        elif not is_new:
            raise _directory_error(found)
        if any(entry.certificate == certificate for entry in entries):
            return True
        entries = (*entries, MqUserSignCert.of(certificate, self._new_identifier()))
        size = len(MqUserSignCerts(entries).to_bytes())
        if size > MOST_BYTES:
            raise MQError(
                Status.MQ_ERROR_DS_ERROR,
                f"the {len(entries)} certificates of {format_sid(sid)} would have {size} bytes, and a"
                f" directory holds {MOST_BYTES}; an administrator removes old ones from mSMQSignCertificates"
                " and mSMQDigests",
            )
        user = UserObject(
            identifier=self._new_identifier() if is_new else found_identifier(found),
            security_identifier=sid,
            certificate_digest_list=tuple(entry.digest for entry in entries),
            certificates=MqUserSignCerts(entries),
        )
        written = await users.write(user, found.value if found.succeeded else None)
        if is_new and written.result is DirectoryOperationResult.OBJECT_ALREADY_EXISTS:
            return False
        if not written.succeeded and not written.is_disconnected:
            raise MQError(
                Status.MQ_ERROR_DS_ERROR,
                f"the directory refuses the certificate of {format_sid(sid)}:"
                f" {written.detail or written.result.name}; {_NO_USER if is_new else _NO_RIGHT}",
            )
        if not written.succeeded:
            raise _directory_error(written)
        if not is_new and not written.value:
            return False
        self._cache.forget(sid)
        self._unproven.forget(sid)
        return True


def found_identifier(found: Outcome) -> UUID:
    """The Identifier of an object that was read; null if it was not read."""
    values: Mapping[str, Any] = found.value.values if found.succeeded else {}
    identifier: UUID = values.get("identifier", UUID(int=0))
    return identifier


def _directory_error(outcome: Outcome) -> MQError:
    if outcome.is_disconnected:
        return MQError(Status.MQ_ERROR_NO_DS, outcome.detail or "the directory is unreachable")
    return MQError(
        Status.MQ_ERROR_DS_ERROR, f"the directory refuses it: {outcome.detail or outcome.result.name}"
    )
