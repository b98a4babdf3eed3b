"""InternalCertificateCollection, and other certificates for signing messages. [MS-MQDMPR] 3.1.1.1.

Each belongs to a user, identified by a SID. The keys are stored here; for others to accept signatures, the
certificate has to be in the directory as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from msmq.interfaces.clock import IClock
from msmq.interfaces.manager.access_summaries import CertificateSummary
from msmq.interfaces.security.signing import (
    CertificateFacts,
    CertificateStoreError,
    ICertificateStore,
    ISigning,
    KeptCertificate,
    Unusable,
)
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.wire.sid import format_sid, parse_sid

DAYS: Final = 3650
"""Validity of a generated certificate."""

_DAY: Final = 86400.0
_SHORTEST_FINGERPRINT: Final = 8
_LONGEST_NAME: Final = 64


class Certificates:
    """The signing certificates of this queue manager.

    @param sender: the SID of local senders, by default.
    @param in_thread: calls a function in a worker thread.
    """

    def __init__(
        self,
        signing: ISigning,
        store: ICertificateStore,
        clock: IClock,
        sender: bytes,
        in_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._signing = signing
        self._store = store
        self._clock = clock
        self._sender = sender
        self._in_thread = in_thread
        self._kept: tuple[KeptCertificate, ...] = ()

    @property
    def kept(self) -> tuple[KeptCertificate, ...]:
        """All certificates, in the order in which they were added."""
        return self._kept

    def load(self) -> None:
        """Load the stored certificates.

        @raise MQError: MQ_ERROR_CANNOT_OPEN_CERT_STORE.
        """
        try:
            self._kept = tuple(self._store.load())
        except CertificateStoreError as error:
            raise MQError(Status.MQ_ERROR_CANNOT_OPEN_CERT_STORE, str(error)) from error

    def summaries(self) -> list[CertificateSummary]:
        """All certificates, without their keys, in the order in which they were added."""
        return [self.summary_of(kept) for kept in self._kept]

    def summary(self, fingerprint: str) -> CertificateSummary:
        """One certificate, as L{find} finds it."""
        return self.summary_of(self.find(fingerprint))

    def find(self, fingerprint: str, owner: bytes | None = None) -> KeptCertificate:
        """The certificate whose SHA-256 begins with this; without an argument the default one.

        That is the internal certificate of the sender, or else the first that is the sender's; valid ones are
        preferred.

        @param owner: the SID of its user; by default that of local senders.
        @raise MQError: MQ_ERROR_CERTIFICATE_NOT_PROVIDED if there is none, or more than one.
        """
        if not fingerprint:
            owner = self._sender if owner is None else owner
            own = [kept for kept in self._kept if kept.security_identifier == owner]
            for kept in sorted(own, key=lambda kept: (not self._is_valid(kept), not kept.is_internal)):
                return kept
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                f"no certificate of {format_sid(owner)} is stored here; run msmq certificate create",
            )
        wanted = fingerprint.replace(":", "").lower()
        found = [kept for kept in self._kept if self._fingerprint(kept).startswith(wanted)]
        if len(wanted) < _SHORTEST_FINGERPRINT or len(found) != 1:
            what = "no certificate" if not found else "more than one certificate"
            raise MQError(
                Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED,
                f"{what} here has a fingerprint that begins with {quoted(fingerprint[:64])}"
                if len(wanted) >= _SHORTEST_FINGERPRINT
                else f"a fingerprint needs at least its first {_SHORTEST_FINGERPRINT} hex digits",
            )
        return found[0]

    def valid(self, kept: KeptCertificate) -> KeptCertificate:
        """The default certificate of the same user, as of L{find}, in place of one that is not valid now."""
        return kept if self._is_valid(kept) else self.find("", kept.security_identifier)

    async def create(
        self, *, sid: str = "", name: str = "", days: int = DAYS, renew: bool = False
    ) -> CertificateSummary:
        """Generate the internal certificate of a user, at most one. [MS-MQDMPR] 3.1.1.19.

        @param sid: of the user; by default that of local senders.
        @param name: of the user, for people to read; by default the SID.
        @param days: for how many it is valid.
        @param renew: replace the existing one.
        @raise MQError: MQ_ERROR_INTERNAL_USER_CERT_EXIST; or that it cannot be stored.
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
        # A clock that is slightly slow elsewhere must not make a new certificate invalid.
        credentials = await self._in_thread(self._signing.create, common_name, now - _DAY, now + days * _DAY)
        # Another caller may have created one meanwhile.
        former = self._former(owner, renew=renew)
        kept = KeptCertificate(credentials, owner, is_internal=True)
        self._add(kept)
        for each in former:
            self._remove(each)
        return self.summary_of(kept)

    def add(self, data: bytes, *, password: bytes | None = None, sid: str = "") -> CertificateSummary:
        """Import a certificate of another authority, with its key, from a file.

        @param data: PEM, DER or PKCS#12.
        @param sid: the SID of its user; by default that of local senders.
        @raise MQError: MQ_ERROR_INVALID_CERTIFICATE, with the reason.
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
            raise _invalid(f"the certificate {facts.fingerprint[:16]} is stored here already")
        self._add(kept)
        return self.summary_of(kept)

    def remove(self, fingerprint: str) -> CertificateSummary:
        """Delete a certificate and its key; its registration in the directory stays.

        @raise MQError: as L{find}.
        """
        if not fingerprint:
            raise MQError(Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED, "no fingerprint is given")
        kept = self.find(fingerprint)
        summary = self.summary_of(kept)
        self._remove(kept)
        return summary

    def facts(self, kept: KeptCertificate) -> CertificateFacts:
        """The facts of a stored certificate.

        @raise MQError: MQ_ERROR_INVALID_CERTIFICATE if it is damaged.
        """
        facts = self._signing.facts(kept.credentials.certificate)
        if isinstance(facts, Unusable):
            raise _invalid(f"a stored certificate {facts.reason}")
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

    def summary_of(self, kept: KeptCertificate) -> CertificateSummary:
        """A stored certificate, without its key."""
        facts = self.facts(kept)
        return CertificateSummary(
            fingerprint=facts.fingerprint,
            subject=facts.subject,
            issuer=facts.issuer,
            serial_number=f"{facts.serial_number:x}",
            not_before=facts.not_before,
            not_after=facts.not_after,
            key=f"{facts.key_type} {facts.key_bits}",
            sid=format_sid(kept.security_identifier),
            internal=kept.is_internal,
            valid=self._is_valid(kept),
            certificate=kept.credentials.certificate,
        )


def _invalid(reason: str) -> MQError:
    return MQError(Status.MQ_ERROR_INVALID_CERTIFICATE, reason)
