"""Identifies the callers of the web endpoint, logs browsers in and out, and checks what a page needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.control.authentication.roles import Role
from msmq.control.authentication.token_authentication import TokenAuthentication, TokenRequired
from msmq.control.authentication.token_file import TokenHolder
from msmq.control.protocol.refusals import role_too_low
from msmq.control.server.http.headers import header_values
from msmq.line_limit import LineLimit
from msmq.moment import Moment
from msmq.quoting import shown
from msmq.structures.status import MQError, Status
from msmq.web.access.identity import READ_ONLY, Identity, local_caller
from msmq.web.access.request import WebRequest
from msmq.web.access.sessions import BrowserSession, BrowserSessions, session_key

_CSRF: Final = "csrf"
"""The field of a form with the CSRF token."""

_HEALTH: Final = "/health/"


class WebAccess:
    """The access to one web endpoint.

    @param tokens: authenticates the holders of tokens; C{None} if none are configured, which only a loopback
        endpoint may have.
    @param sessions: the browsers that have logged in.
    @param is_loopback: whether only processes of this computer reach the endpoint.
    @param anonymous: the role of callers without a token at a loopback endpoint without tokens, C{MONITOR} or
        C{READER}; C{None} if they have no rights. It is asked for each request, since a reload may change it.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        tokens: TokenAuthentication | None,
        sessions: BrowserSessions,
        clock: IReactorTime,
        *,
        is_loopback: bool,
        anonymous: Callable[[], Role | None],
    ) -> None:
        self._tokens = tokens
        self._sessions = sessions
        self._clock = clock
        self.is_loopback = is_loopback
        self._anonymous = anonymous
        self._refused = LineLimit.a_minute(1)

    @property
    def has_login(self) -> bool:
        """Whether tokens are configured, so that a browser can log in."""
        return self._tokens is not None

    @property
    def serves_metrics(self) -> bool:
        """Whether callers without a token may read the metrics: processes of this computer, unless their role
        is C{none}.
        """
        return self._anonymous_role() is not None

    def admit(self, request: WebRequest) -> Identity | None:
        """Identify the caller of a request whose head is complete.

        @return: C{None} without a token or a session.
        @raise MQError: another web site causes the request, its token is not valid, or its host has sent too
            many of these.
        """
        if problem := request.origin.problem(is_loopback=self.is_loopback):
            raise MQError(Status.MQ_ERROR_ACCESS_DENIED, problem)
        if request.head_path.startswith(_HEALTH):
            # Probes may have any header, and no rights.
            return None
        if self._tokens is None:
            role = self._anonymous_role()
            return None if role is None else local_caller(role)
        shown = list(request.requestHeaders.getRawHeaders(b"authorization", []))
        if not shown:
            return self._identity_of_cookie(request)
        try:
            holder = self._tokens.bearer(shown, request.address)
        except MQError as error:
            self._note(request, error)
            raise
        return Identity(holder.name, holder.role, digest=holder.digest)

    def identify(self, request: WebRequest) -> Identity | None:
        """The caller of a request; C{None} if it has neither a token nor a session."""
        return request.identity

    def require(self, request: WebRequest, role: Role) -> Identity:
        """The caller of a request for which it needs a role.

        A request other than GET and HEAD by a session needs the CSRF token as well: the field C{csrf} of its
        form, or the header C{X-CSRF-Token}.

        @raise MQError: L{TokenRequired} without a token; MQ_ERROR_ACCESS_DENIED if the role does not
            suffice, or without the CSRF token.
        """
        found = request.identity
        if found is None:
            raise self.token_required("this page")
        method, path = request.method.decode("ascii", "replace"), request.path.decode("utf-8", "replace")
        if not found.may(role):
            error = role_too_low(found.name, found.role, f"{method} {path}", role)
            self._note(request, error)
            raise error
        if method not in ("GET", "HEAD") and found.csrf:
            shown = request.header("x-csrf-token") or request.field(_CSRF)
            if not found.confirms(shown):
                raise MQError(
                    Status.MQ_ERROR_ACCESS_DENIED,
                    "this form belongs to an earlier login; load the page again",
                )
        return found

    def token_required(self, what: str) -> TokenRequired:
        """The refusal of a caller without a token, with what it can do."""
        if self.has_login:
            return TokenRequired(f"{what} needs a token; browsers log in at /login")
        return TokenRequired(
            f"{what} is not served to callers without a token ([web] anonymous), and there is no login:"
            f" {READ_ONLY}"
        )

    def is_current(self, identity: Identity) -> bool:
        """Whether the token of a caller is still valid with the same role, and its session has not ended; for
        requests that last.
        """
        if identity.digest is None:
            return self._tokens is None and self._anonymous_role() == identity.role
        if identity.session is not None and not self._sessions.is_open(identity.session):
            return False
        holder = None if self._tokens is None else self._tokens.still(identity.digest)
        return holder is not None and holder.role == identity.role

    def log_in(self, request: WebRequest, token: str) -> Identity:
        """Begin a session for a browser that shows a token, and set its cookie.

        @raise MQError: the token is not valid, the host has sent too many of these, or no tokens are
            configured.
        """
        if self._tokens is None:
            raise MQError(Status.MQ_ERROR_UNSUPPORTED_OPERATION, f"there is no login: {READ_ONLY}")
        try:
            holder = self._tokens.holder(token.encode("utf-8", "surrogateescape"), request.address)
        except MQError as error:
            self._note(request, error)
            raise
        self.log_out(request)
        cookie = self._sessions.open(holder.digest)
        self._set_cookie(request, cookie, "")
        session = self._sessions.find(cookie)
        self._log.info("web: {name} from {peer} has logged in", name=holder.name, peer=request.address)
        assert session is not None
        return _in_session(holder, session, cookie)

    def log_out(self, request: WebRequest) -> None:
        """End the session of a request, if it has one, and delete its cookie."""
        for cookie in self._cookies(request):
            self._sessions.close(cookie)
        self._set_cookie(request, "", "; Max-Age=0")

    def _anonymous_role(self) -> Role | None:
        return self._anonymous() if self.is_loopback else None

    def _identity_of_cookie(self, request: WebRequest) -> Identity | None:
        assert self._tokens is not None
        cookies = self._cookies(request)
        session = self._sessions.find(cookies[0]) if len(cookies) == 1 else None
        if session is None:
            return None
        holder = self._tokens.still(session.token)
        if holder is None:
            self._sessions.close(cookies[0])
            return None
        return _in_session(holder, session, cookies[0])

    def _cookies(self, request: WebRequest) -> list[str]:
        name = _cookie_name(request)
        lines = header_values(request, "cookie")
        pairs = [part.strip().partition("=") for line in lines for part in line.split(";")]
        return [value for key, _, value in pairs if key == name]

    def _set_cookie(self, request: WebRequest, value: str, ending: str) -> None:
        secure = "; Secure" if request.is_secure else ""
        line = f"{_cookie_name(request)}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ending}"
        request.set_header("set-cookie", line)

    def _note(self, request: WebRequest, error: MQError) -> None:
        now = Moment(monotonic=self._clock.seconds(), wall=self._clock.seconds())
        if (others := self._refused.take(now)) is not None:
            self._log.warn(
                "web: a request from {peer} is refused: {reason}{others}",
                peer=request.address,
                reason=shown(error.detail),
                others=others,
            )


def _in_session(holder: TokenHolder, session: BrowserSession, cookie: str) -> Identity:
    return Identity(holder.name, holder.role, session.csrf, digest=holder.digest, session=session_key(cookie))


def _cookie_name(request: WebRequest) -> str:
    """The name of the session cookie, with the port: cookies are shared by all ports of a host."""
    return f"__Host-msmq-{request.own_port}" if request.is_secure else f"msmq-{request.own_port}"
