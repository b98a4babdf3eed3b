"""Requests to the web endpoint, whose callers are identified before their bodies are read."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, Protocol, cast
from urllib.parse import parse_qs, unquote_to_bytes

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenRequired, TooManyGuesses
from msmq.control.protocol.refusals import http_status, invalid, refusal, wrong_content
from msmq.control.server.http.headers import header_value, header_values
from msmq.control.server.http.requests import BoundedContent, ControlRequest, RequestSite
from msmq.control.server.http.responses import json_answer
from msmq.structures.status import MQError
from msmq.web.access.identity import Identity
from msmq.web.access.origin import RequestOrigin

LOGIN: Final = "/login"
API: Final = "/v1/"
FORM: Final = "application/x-www-form-urlencoded"

FIELDS: Final = 10_000
"""Fields of one form."""

_LOGIN_FORM: Final = 4096


class AdmittingSite(RequestSite, Protocol):
    """Interface of the factory of a request's connection."""

    def admit(self, request: WebRequest) -> Identity | None:
        """Identify the caller of a request whose head is complete.

        @return: C{None} for a caller without a token, which may use what needs none.
        @raise MQError: the request is refused.
        """

    def is_current(self, identity: Identity) -> bool:
        """Whether a caller still has its role."""


class WebRequest(ControlRequest):
    """A request to the web endpoint.

    @ivar identity: its caller; C{None} for one without a token.
    """

    identity: Identity | None = None
    _refused: MQError | None = None

    @property
    def head_path(self) -> str:
        """The path, also before the body is complete; bytes that are not UTF-8 are replaced."""
        path: bytes = vars(self.channel)["_path"].partition(b"?")[0]
        return unquote_to_bytes(path).decode("utf-8", "replace")

    @property
    def head_method(self) -> str:
        """The method, also before the body is complete."""
        method: bytes = vars(self.channel)["_command"]
        return method.decode("ascii", "replace")

    @property
    def role_of_body(self) -> Role | None:
        """See L{ControlRequest.role_of_body}; a form has its CSRF token in its body."""
        return None if self.identity is None else self.identity.role

    @property
    def address(self) -> str:
        """The network address of the caller."""
        return getattr(cast(Any, self).getClientAddress(), "host", "") or "unknown"

    @property
    def own_port(self) -> int:
        """The port of the server on which the request arrived; 0 on a transport without ports."""
        return getattr(cast(Any, self).getHost(), "port", 0)

    @property
    def is_secure(self) -> bool:
        """Whether it came over TLS."""
        return bool(cast(Any, self).isSecure())

    def set_header(self, name: str, value: str) -> None:
        """Set a header of the response."""
        self.responseHeaders.setRawHeaders(name, [value])

    @property
    def origin(self) -> RequestOrigin:
        """What the head has on the origin of the request."""

        def values(name: str) -> list[str]:
            return header_values(self, name)

        return RequestOrigin(
            self.head_method,
            values("host"),
            values("origin"),
            "".join(values("sec-fetch-site")),
            "".join(values("sec-fetch-mode")),
            self.is_secure,
            is_page=not self.head_path.startswith(API),
        )

    def gotLength(self, length: int | None) -> None:
        """Identify the caller, and choose the consumer of the body, when the headers are complete."""
        site: AdmittingSite = vars(self.channel)["site"]
        try:
            self.identity = site.admit(self)
        except MQError as error:
            self._refused = error
        # The token goes no further.
        self.requestHeaders.removeHeader(b"authorization")
        if self.identity is not None:
            self.token_name = self.identity.name
            self.role = self._role_in_api(self.identity)
            super().gotLength(length)
        else:
            # A caller without a token sends nothing but a login.
            is_login = self._refused is None and self.head_path == LOGIN
            self.content = BoundedContent(_LOGIN_FORM if is_login else 0)

    def _role_in_api(self, identity: Identity) -> Role:
        """The role for C{/v1}: without the CSRF token a browser's session can only read."""
        if identity.confirms(self.header("x-csrf-token")):
            return identity.role
        self.token_name = f"{identity.name}, in a request without its X-CSRF-Token,"
        return min(identity.role, Role.READER)

    @property
    def account(self) -> Hashable:
        """See L{ControlRequest.account}."""
        digest = None if self.identity is None else self.identity.digest
        return super().account if digest is None else digest

    def is_current(self) -> bool:
        """See L{ControlRequest.is_current}."""
        if self.channel is None:
            return False
        site: AdmittingSite = vars(self.channel)["site"]
        return self.identity is not None and site.is_current(self.identity)

    def header(self, name: str) -> str:
        """The value of a header; empty without it."""
        return header_value(self, name)

    def process(self) -> None:
        """Answer the complete request."""
        self.set_header("cache-control", "no-store")
        self.set_header("x-content-type-options", "nosniff")
        error = self._refused
        if error is None and self.identity is None and self.path.startswith(API.encode("ascii")):
            error = TokenRequired("this endpoint requires a token, and the request has none")
        if error is None:
            super().process()
        else:
            self.write(refused_as_json(self, error))  # type: ignore[no-untyped-call]
            self.finish()

    def form(self) -> Mapping[str, list[str]]:
        """The fields of the form in the body, each with its values; of an empty body none.

        @raise MQError: the body is over the limit, or not a form.
        """
        content = self.content
        kind = self.header("content-type").split(";")[0].strip().lower()
        if not isinstance(content, BoundedContent) or content.is_over:
            raise invalid("the form is larger than the server accepts")
        body = content.getvalue()
        if body and kind != FORM:
            raise wrong_content(kind, FORM)
        try:
            return parse_qs(
                body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS
            )
        except ValueError:
            raise invalid(f"the body is not a form in UTF-8 with at most {FIELDS} fields") from None

    def field(self, name: str) -> str:
        """One field of the form; empty without it.

        @raise MQError: as of L{form}, or the field has several values.
        """
        values = self.form().get(name, [""])
        if len(values) > 1:
            raise invalid(f"the field {name} is given {len(values)} times")
        return values[0]


def refused_as_json(request: WebRequest, error: MQError) -> bytes:
    """Set status and headers of a refusal, and return its body."""
    advise(request, error)
    return json_answer(request, refusal(error), http_status(error))


def advise(request: WebRequest, error: MQError) -> None:
    """Set the headers that say how to authenticate, or when."""
    if isinstance(error, TokenRequired):
        request.set_header("www-authenticate", 'Bearer realm="msmq"')
    if isinstance(error, TooManyGuesses):
        request.set_header("retry-after", str(error.seconds))
