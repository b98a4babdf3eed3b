"""Resources about signing certificates: list, generate, import, show, publish, delete."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from klein import Klein

from msmq.control.authentication.audit import AuditedOperation
from msmq.control.protocol.names import DEFAULT_CERTIFICATE
from msmq.control.protocol.refusals import invalid
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import json_answer
from msmq.control.server.messages.json_records import json_record
from msmq.control.server.messages.properties import flag, number, text
from msmq.control.server.resources.context import ResourceContext, at_once, without_parameters
from msmq.interfaces.manager.access_summaries import CertificateSummary
from msmq.quoting import quoted

_NEW: Final = {"sid": text, "name": text, "days": number, "renew": flag}


def read_fingerprint(value: str) -> str:
    """Parse the fingerprint of a certificate in a path."""
    return "" if value == DEFAULT_CERTIFICATE else value


def read_new_certificate(wanted: Mapping[str, object]) -> dict[str, Any]:
    """The arguments for generating a certificate.

    @raise MQError: a property is unknown, or of another type.
    """
    arguments = {}
    for name, value in wanted.items():
        if name not in _NEW:
            raise invalid(f"a new certificate has no property {quoted(name)}; it has {', '.join(_NEW)}")
        arguments[name] = _NEW[name](name, value)
    return arguments


def read_import(wanted: Mapping[str, object]) -> dict[str, Any]:
    """The arguments for importing a certificate from a file.

    @raise MQError: a property is unknown, or of another type.
    """
    rest = dict(wanted)
    try:
        data = base64.b64decode(text("file_base64", rest.pop("file_base64")), validate=True)
    except ValueError:
        raise invalid("file_base64 is not base64") from None
    password = rest.pop("password", None)
    sid = text("sid", rest.pop("sid", ""))
    if rest:
        raise invalid(f"an imported certificate has no property {quoted(next(iter(rest)))}")
    encoded = None if password is None else text("password", password).encode("utf-8", "surrogateescape")
    return {"data": data, "password": encoded, "sid": sid}


class CertificateResources:
    """The certificates that messages are signed with."""

    app = Klein()

    def __init__(self, context: ResourceContext) -> None:
        self._context = context
        self._access = context.manager.access

    @app.route("/v1/certificates", methods=["GET"])
    async def certificates(self, request: ControlRequest) -> bytes | None:
        """Every certificate."""
        without_parameters(request)
        return await self._context.listed(request, self._access.certificates())

    @app.route("/v1/certificates", methods=["POST"])
    async def add_certificate(self, request: ControlRequest) -> bytes:
        """Generate a certificate, or import one from a file in the body."""
        wanted = self._context.document(request)
        work: Callable[[], Awaitable[CertificateSummary]]
        if "file_base64" in wanted:
            imported = read_import(wanted)
            work = partial(at_once, partial(self._access.import_certificate, **imported))
            operation = AuditedOperation("certificate import", imported["sid"] or DEFAULT_CERTIFICATE)
        else:
            options = read_new_certificate(wanted)
            work = partial(self._access.create_certificate, **options)
            target = options.get("sid") or DEFAULT_CERTIFICATE
            operation = AuditedOperation("certificate create", target, options)
        return await self._context.changed(request, operation, work, 201)

    @app.route("/v1/certificates/<fingerprint>", methods=["GET"])
    def certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """One certificate; C{default} is the one that is used for signing."""
        without_parameters(request)
        found = self._access.certificate(read_fingerprint(fingerprint))
        return json_answer(request, json_record(found))

    @app.route("/v1/certificates/<fingerprint>/publish", methods=["POST"])
    async def publish_certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """Register a certificate with its user in the directory."""
        without_parameters(request)
        return await self._context.changed(
            request,
            AuditedOperation("certificate publish", fingerprint),
            lambda: self._access.publish_certificate(read_fingerprint(fingerprint)),
        )

    @app.route("/v1/certificates/<fingerprint>", methods=["DELETE"])
    async def delete_certificate(self, request: ControlRequest, fingerprint: str) -> bytes:
        """Delete a certificate and its key."""
        without_parameters(request)
        return await self._context.changed(
            request,
            AuditedOperation("certificate delete", fingerprint),
            lambda: at_once(lambda: self._access.delete_certificate(fingerprint)),
        )
