"""[MS-MQDMPR] 3.1.1.1 InternalCertificateCollection, and what other certificates messages are signed with.

Each belongs to a user, who is known by a SID. The keys are here; whom others are to believe has to be in the
directory as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.clock import IClock
from msmq.interfaces.signing import (
    CertificateFacts,
    CertificateStoreError,
    ICertificateStore,
    ISigning,
    KeptCertificate,
    Unusable,
)
from msmq.queues.directory.entry import DirectoryEntry
from msmq.queues.directory.enumerations import DirectoryOperationResult
from msmq.queues.directory.objects import UserObject
from msmq.queues.directory.requests import Outcome
from msmq.structures.status import MQError, Status
from msmq.structures.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.wire.sid import format_sid, parse_sid

DAYS: Final = 3650
"""For how long a certificate is valid that is generated here."""

ATTEMPTS: Final = 8
"""How often it is tried to register a certificate while others change those of the same user."""

_DAY: Final = 86400.0
_SHORTEST_FINGERPRINT: Final = 8
_LONGEST_NAME: Final = 64


@attrs.frozen
class UserDirectory:
    """What the directory is asked about users.

    @ivar read: the user of a SID.
    @ivar write: sets the certificates of a user if they are still what was read of them, as the value of the
        outcome says; without that the user is made.
    """

    read: Callable[[bytes], Awaitable[Outcome]]
    write: Callable[[UserObject, DirectoryEntry[UserObject] | None], Awaitable[Outcome]]


class Certificates:
    """The certificates of this queue manager.

    @param sender: the SID of whoever sends here, unless a certificate says otherwise.
    @param beside: calls a function where it holds up nobody.
    """

    def __init__(
        self,
        signing: ISigning,
        store: ICertificateStore,
        clock: IClock,
        sender: bytes,
        new_identifier: Callable[[], UUID],
        beside: Callable[..., Deferred[Any]],
    ) -> None:
        self._signing = signing
        self._store = store
        self._clock = clock
        self._sender = sender
        self._new_identifier = new_identifier
        self._beside = beside
        self._kept: tuple[KeptCertificate, ...] = ()
        self.users: UserDirectory | None = None
        self.on_published: Callable[[bytes], None] = lambda sid: None

    @property
    def kept(self) -> tuple[KeptCertificate, ...]:
        """All of them, in the order in which they came."""
        return self._kept

    def load(self) -> None:
        """Take over what the store holds.

        @raise MQError: MQ_ERROR_CANNOT_OPEN_CERT_STORE.
        """
        try:
            self._kept = tuple(self._store.load())
        except CertificateStoreError as error:
            raise MQError(Status.MQ_ERROR_CANNOT_OPEN_CERT_STORE, str(error)) from error

    def records(self) -> list[dict[str, Any]]:
        """What people are told of each: fingerprint, subject, issuer, times, sid, internal, is_valid."""
        return [self._record(kept) for kept in self._kept]

    def record(self, fingerprint: str) -> dict[str, Any]:
        """The same of one."""
        return self._record(self.find(fingerprint))

    def find(self, fingerprint: str, owner: bytes | None = None) -> KeptCertificate:
        """The certificate whose SHA-256 begins like this; without it the default one.

        That is the internal certificate of the sender, or else the first that is the sender's; one that is
        valid now goes before one that is not.

        @param owner: whose default one; by default that of whoever sends here.
        @raise MQError: MQ_ERROR_CERTIFICATE_NOT_PROVIDED if there is none, or more than one.
        """
        if not fingerprint:
            owner = self._sender if owner is None else owner
            own = [kept for kept in self._kept if kept.security_identifier == owner]
            for kept in sorted(own, key=lambda kept: (not self._is_valid(kept), not kept.is_internal)):
                return kept
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                f"no certificate of {format_sid(owner)} is here; msmq certificate create makes one",
            )
        wanted = fingerprint.replace(":", "").lower()
        found = [kept for kept in self._kept if self._fingerprint(kept).startswith(wanted)]
        if len(wanted) < _SHORTEST_FINGERPRINT or len(found) != 1:
            what = "no certificate" if not found else "more than one certificate"
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                f"{what} here has a fingerprint that begins with {fingerprint[:64]!r}"
                if len(wanted) >= _SHORTEST_FINGERPRINT
                else f"a fingerprint is named by its first {_SHORTEST_FINGERPRINT} hex digits, or more",
            )
        return found[0]

    async def create(
        self, *, sid: str = "", name: str = "", days: int = DAYS, renew: bool = False
    ) -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.1.19 generate the internal certificate of a user, who has one at most.

        @param sid: of the user; by default whoever sends here.
        @param name: of the user, for people to read; by default the SID.
        @param days: for how many it is valid.
        @param renew: in place of the one that there is.
        @raise MQError: MQ_ERROR_INTERNAL_USER_CERT_EXIST; or that it cannot be kept.
        """
        owner = self._owner(sid)
        self._former(owner, renew=renew)
        common_name = name or format_sid(owner)
        if len(common_name) > _LONGEST_NAME or not common_name.isprintable():
            raise MQError(
                Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
                f"the name of a certificate is text of at most {_LONGEST_NAME} characters",
            )
        if not 1 <= days <= 36500:
            raise MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"days {days} is not within 1..36500")
        now = self._clock.now().wall
        # A clock that is a little late there must not make a new certificate invalid.
        credentials = await self._beside(self._signing.create, common_name, now - _DAY, now + days * _DAY)
        # Somebody else may have made one meanwhile.
        former = self._former(owner, renew=renew)
        kept = KeptCertificate(credentials, owner, is_internal=True)
        self._add(kept)
        for each in former:
            self._remove(each)
        return self._record(kept)

    def add(self, data: bytes, *, password: bytes | None = None, sid: str = "") -> dict[str, Any]:
        """Take over a certificate of another authority, with its key, from a file.

        @param data: PEM, DER or PKCS#12.
        @param sid: whose it is; by default whoever sends here.
        @raise MQError: MQ_ERROR_INVALID_CERTIFICATE says what is wrong with it.
        """
        credentials = self._signing.parse(data, password)
        if isinstance(credentials, Unusable):
            raise _invalid(f"the file {credentials.reason}")
        if credentials.private_key is None:
            raise _invalid("the file holds a certificate without its private key, so nothing can be signed")
        facts = self._signing.facts(credentials.certificate)
        if isinstance(facts, Unusable):
            raise _invalid(f"the certificate {facts.reason}")
        kept = KeptCertificate(credentials, self._owner(sid), is_internal=False)
        if any(each.credentials.certificate == credentials.certificate for each in self._kept):
            raise _invalid(f"the certificate {facts.fingerprint[:16]} is here already")
        self._add(kept)
        return self._record(kept)

    def remove(self, fingerprint: str) -> dict[str, Any]:
        """Forget a certificate and its key; the directory still has it, if it had.

        @raise MQError: as L{find}.
        """
        if not fingerprint:
            raise MQError(Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED, "no fingerprint is given")
        kept = self.find(fingerprint)
        record = self._record(kept)
        self._remove(kept)
        return record

    async def publish(self, fingerprint: str = "") -> dict[str, Any]:
        """[MS-MQDMPR] 3.1.1.15 register a certificate with its user in the directory.

        @raise MQError: MQ_ERROR_NO_DS without a directory, MQ_ERROR_WRITE_NOT_ALLOWED if it does not let us.
        """
        kept = self.find(fingerprint)
        if self.users is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "this queue manager has no directory")
        for _ in range(ATTEMPTS):
            if await self._register(self.users, kept):
                return self._record(kept)
        raise MQError(
            Status.MQ_ERROR_DS_ERROR,
            f"others change the certificates of {format_sid(kept.security_identifier)} in the directory all"
            f" the time: {ATTEMPTS} attempts",
        )

    async def _register(self, users: UserDirectory, kept: KeptCertificate) -> bool:
        """Add a certificate to those that the directory has of its user.

        Somebody else may do the same at this moment, elsewhere, and theirs must not be lost by it.

        @return: whether it is there; if not, they have changed since they were read.
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
        user = UserObject(
            identifier=self._new_identifier() if is_new else found_identifier(found),
            security_identifier=sid,
            certificate_digest_list=tuple(entry.digest for entry in entries),
            certificates=MqUserSignCerts(entries),
        )
        written = await users.write(user, found.value if found.succeeded else None)
        if is_new and written.result is DirectoryOperationResult.OBJECT_ALREADY_EXISTS:
            return False
        if not written.succeeded:
            raise _directory_error(written)
        if not is_new and not written.value:
            return False
        self.on_published(sid)
        return True

    def facts(self, kept: KeptCertificate) -> CertificateFacts:
        """What a certificate says that was looked at when it came.

        @raise MQError: MQ_ERROR_INVALID_CERTIFICATE if the store has damaged it.
        """
        facts = self._signing.facts(kept.credentials.certificate)
        if isinstance(facts, Unusable):
            raise _invalid(f"a certificate that is kept here {facts.reason}")
        return facts

    def _fingerprint(self, kept: KeptCertificate) -> str:
        facts = self._signing.facts(kept.credentials.certificate)
        return "" if isinstance(facts, Unusable) else facts.fingerprint

    def _former(self, owner: bytes, *, renew: bool) -> list[KeptCertificate]:
        """The internal certificate that a new one is to replace."""
        former = [kept for kept in self._kept if kept.is_internal and kept.security_identifier == owner]
        if former and not renew:
            raise MQError(
                Status.MQ_ERROR_INTERNAL_USER_CERT_EXIST,
                f"{format_sid(owner)} has an internal certificate: {self._fingerprint(former[0])[:16]}",
            )
        return former

    def _is_valid(self, kept: KeptCertificate) -> bool:
        facts = self._signing.facts(kept.credentials.certificate)
        if isinstance(facts, Unusable):
            return False
        return facts.not_before <= self._clock.now().wall <= facts.not_after

    def _owner(self, sid: str) -> bytes:
        if not sid:
            return self._sender
        try:
            return parse_sid(sid)
        except ValueError as error:
            raise MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, str(error)) from None

    def _add(self, kept: KeptCertificate) -> None:
        try:
            self._store.add(kept)
        except CertificateStoreError as error:
            raise MQError(Status.MQ_ERROR_CANNOT_CREATE_CERT_STORE, str(error)) from error
        self._kept = (*self._kept, kept)

    def _remove(self, kept: KeptCertificate) -> None:
        try:
            self._store.remove(kept.credentials.certificate)
        except CertificateStoreError as error:
            raise MQError(Status.MQ_ERROR_CANNOT_OPEN_CERT_STORE, str(error)) from error
        self._kept = tuple(each for each in self._kept if each is not kept)

    def _record(self, kept: KeptCertificate) -> dict[str, Any]:
        facts = self.facts(kept)
        return {
            "fingerprint": facts.fingerprint,
            "subject": facts.subject,
            "issuer": facts.issuer,
            "serial_number": f"{facts.serial_number:x}",
            "not_before": facts.not_before,
            "not_after": facts.not_after,
            "key": f"{facts.key_type} {facts.key_bits}",
            "sid": format_sid(kept.security_identifier),
            "internal": kept.is_internal,
            "valid": self._is_valid(kept),
            "certificate": kept.credentials.certificate,
        }


def found_identifier(found: Outcome) -> UUID:
    """The Identifier of an object that was read; null if it was not among what was read."""
    values: Mapping[str, Any] = found.value.values if found.succeeded else {}
    identifier: UUID = values.get("identifier", UUID(int=0))
    return identifier


def _invalid(reason: str) -> MQError:
    return MQError(Status.MQ_ERROR_INVALID_CERTIFICATE, reason)


def _directory_error(outcome: Outcome) -> MQError:
    if outcome.is_disconnected:
        return MQError(Status.MQ_ERROR_NO_DS, outcome.detail or "the directory is away")
    return MQError(
        Status.MQ_ERROR_DS_ERROR, f"the directory does not take it: {outcome.detail or outcome.result.name}"
    )
