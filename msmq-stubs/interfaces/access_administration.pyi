# Generated from msmq/interfaces/access_administration.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Awaitable, Sequence
from zope.interface import Interface
from msmq.interfaces.access_summaries import AccessList, AccessVerdict, CertificateSummary

class IAccessAdministration(Interface, _Protocol):

    def acl(self, path: str) -> Awaitable[AccessList]:
        ...

    def allow(self, path: str, principal: str, rights: Sequence[str]) -> Awaitable[AccessList]:
        ...

    def deny(self, path: str, principal: str, rights: Sequence[str]) -> Awaitable[AccessList]:
        ...

    def revoke(self, path: str, principal: str) -> Awaitable[AccessList]:
        ...

    def as_sddl(self, entries: Sequence[tuple[str, str, Sequence[str]]]) -> Awaitable[str]:
        ...

    def replace(self, path: str, sddl: str, *, dry_run: bool=False) -> Awaitable[AccessList]:
        ...

    def why(self, path: str, principal: str, right: str) -> Awaitable[AccessVerdict]:
        ...

    def certificates(self) -> Sequence[CertificateSummary]:
        ...

    def certificate(self, fingerprint: str='') -> CertificateSummary:
        ...

    def create_certificate(self, *, sid: str='', name: str='', days: int=3650, renew: bool=False) -> Awaitable[CertificateSummary]:
        ...

    def import_certificate(self, data: bytes, *, password: bytes | None=None, sid: str='') -> CertificateSummary:
        ...

    def delete_certificate(self, fingerprint: str) -> CertificateSummary:
        ...

    def publish_certificate(self, fingerprint: str='') -> Awaitable[CertificateSummary]:
        ...
