"""What applications and operators ask of the certificates of a queue manager."""

from __future__ import annotations

from typing import Any

from msmq.manager.assembly import Parts
from msmq.manager.securing.certificates import DAYS, Certificates
from msmq.structures.status import MQError, Status


class CertificateRequests:
    """See L{IQueueManager}."""

    @property
    def _work(self) -> Parts:
        raise MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "this is no queue manager")

    def certificates(self) -> list[dict[str, Any]]:
        """See L{IQueueManager.certificates}."""
        return self._certificates.records()

    def certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """See L{IQueueManager.certificate}."""
        return self._certificates.record(fingerprint)

    async def create_certificate(
        self, *, sid: str = "", name: str = "", days: int = DAYS, renew: bool = False
    ) -> dict[str, Any]:
        """See L{IQueueManager.create_certificate}."""
        return await self._certificates.create(sid=sid, name=name, days=days, renew=renew)

    def import_certificate(
        self, data: bytes, *, password: bytes | None = None, sid: str = ""
    ) -> dict[str, Any]:
        """See L{IQueueManager.import_certificate}."""
        return self._certificates.add(data, password=password, sid=sid)

    def delete_certificate(self, fingerprint: str) -> dict[str, Any]:
        """See L{IQueueManager.delete_certificate}."""
        return self._certificates.remove(fingerprint)

    async def publish_certificate(self, fingerprint: str = "") -> dict[str, Any]:
        """See L{IQueueManager.publish_certificate}."""
        publisher = self._work.securing.publisher
        if publisher is None:
            raise _no_certificates()
        return await publisher.publish(fingerprint)

    @property
    def _certificates(self) -> Certificates:
        certificates = self._work.securing.certificates
        if certificates is None:
            raise _no_certificates()
        return certificates


def _no_certificates() -> MQError:
    return MQError(Status.MQ_ERROR_CERTIFICATE_NOT_PROVIDED, "this queue manager keeps no certificates")
