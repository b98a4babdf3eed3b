"""Login and logout of browsers."""

from __future__ import annotations

from klein import Klein

from msmq.control.authentication.token_authentication import TokenRequired, TooManyGuesses
from msmq.control.protocol.refusals import http_status
from msmq.control.server.http.requests import parameters, refuse_rest
from msmq.structures.status import MQError
from msmq.web.access.login import local_address
from msmq.web.access.request import LOGIN, WebRequest, advise
from msmq.web.console.pages.context import PageContext


class LoginPage:
    """The form for a token, which begins a session."""

    app = Klein()

    def __init__(self, context: PageContext) -> None:
        self._context = context

    @app.route(LOGIN, methods=["GET"])
    def form(self, request: WebRequest) -> bytes:
        """The form; C{next} is the page that follows."""
        found = parameters(request)
        following = local_address(found.pop("next", "/"))
        refuse_rest(found, "next")
        return self._page(request, following, None)

    @app.route(LOGIN, methods=["POST"])
    def log_in(self, request: WebRequest) -> bytes:
        """Begin a session, and go on to the page that follows."""
        following = local_address(request.field("next") or "/")
        try:
            self._context.access.log_in(request, request.field("token"))
        except (TokenRequired, TooManyGuesses) as error:
            return self._page(request, following, error)
        return _redirect(request, following)

    @app.route("/logout", methods=["POST"])
    def log_out(self, request: WebRequest) -> bytes:
        """End the session."""
        self._context.access.log_out(request)
        return _redirect(request, LOGIN)

    def _page(self, request: WebRequest, following: str, error: MQError | None) -> bytes:
        if error is not None:
            advise(request, error)
        return self._context.renderer.page(
            request,
            "login.html",
            {
                "section": "login",
                "following": following,
                "problem": _problem(error),
                "has_login": self._context.access.has_login,
            },
            200 if error is None else http_status(error),
        )


def _problem(error: MQError | None) -> str:
    if error is None:
        return ""
    return (
        "the token is not in the token file of this server"
        if isinstance(error, TokenRequired)
        else error.detail
    )


def _redirect(request: WebRequest, address: str) -> bytes:
    request.setResponseCode(303)
    request.set_header("location", address)
    return b""
