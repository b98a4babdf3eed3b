"""The connection to an LDAP server, made when it is needed and made again when it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.logger import Logger

from msmq.directory.ldap.filters import ANYTHING
from msmq.directory.ldap.protocol import Answered, LdapDisconnectedError, LdapProtocol
from msmq.directory.ldap.root import ROOT_ATTRIBUTES, Root, UnsuitableServerError, read_root
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.wire import Bind, Control, Request, Scope, Search, StartTls
from msmq.errors import MsmqError
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult

LONGEST_PASSWORD: Final = 1024
SUCCESS: Final = 0

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"


class LdapConfigurationError(MsmqError):
    """A file that the configuration names cannot be used."""


def read_password(settings: LdapSettings) -> bytes:
    """The password by which we say who we are; nothing if we are nobody.

    @raise LdapConfigurationError: the file cannot be used.
    """
    path = settings.password_file
    if path is None:
        return b""
    try:
        with path.open("rb") as file:
            password = file.read(LONGEST_PASSWORD + 1).rstrip(b"\r\n")
    except OSError as error:
        raise LdapConfigurationError(f"password_file {path}: {error.strerror}") from error
    if not password:
        # With a name and no password many a server lets one in as nobody.
        raise LdapConfigurationError(f"password_file {path} is empty")
    if len(password) > LONGEST_PASSWORD:
        raise LdapConfigurationError(f"password_file {path} has more than {LONGEST_PASSWORD} bytes")
    return password


class LdapConnection:
    """Reaches a server whenever it is asked something and not reached yet.

    All who ask meanwhile wait for the same attempt; the next after a failed one is made with the next
    request.

    @ivar settings: where it is and how it is spoken to.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, settings: LdapSettings, reactor: Any) -> None:
        self.settings = settings
        self._reactor = reactor
        self._protocol: LdapProtocol | None = None
        self._root: Root | None = None
        self._attempt: Deferred[None] | None = None
        self._waiting: list[Deferred[None]] = []
        self._was_reached: bool | None = None
        self._is_closed = False

    def check(self) -> None:
        """See that the files of the configuration can be used.

        @raise LdapConfigurationError: naming the first that cannot.
        """
        read_password(self.settings)
        self._certificates()

    async def root(self) -> Root:
        """What the server says of itself.

        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}.
        """
        await self._reach()
        if self._root is None:
            raise self._away("the connection was lost")
        return self._root

    async def ask(self, request: Request, controls: Sequence[Control] = ()) -> Answered:
        """Ask the server; whatever result it gives is answered.

        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}.
        """
        await self._reach()
        protocol = self._protocol
        if protocol is None:
            raise self._away("the connection was lost")
        try:
            return await protocol.ask(request, controls)
        except LdapDisconnectedError as error:
            raise self._away(str(error)) from error

    def close(self) -> None:
        """Hang up; what is under way fails, and nothing is reached any more."""
        self._is_closed = True
        if self._attempt is not None:
            self._attempt.cancel()
        if self._protocol is not None:
            self._protocol.close()
            self._protocol = None

    def reopen(self) -> None:
        """Reach it again with the next request."""
        self._is_closed = False

    async def _reach(self) -> None:
        if self._is_closed:
            raise DirectoryError(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, "the directory is closed")
        if self._protocol is not None and self._protocol.is_connected:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        if self._attempt is None:
            attempt = Deferred.fromCoroutine(self._connect())
            self._attempt = attempt
            attempt.addTimeout(self.settings.connect_timeout, self._reactor)
            attempt.addBoth(self._attempted)
        await waiting

    def _attempted(self, outcome: object) -> None:
        self._attempt = None
        waiting, self._waiting = self._waiting, []
        failure = getattr(outcome, "value", None)
        if failure is None:
            self._note(True, "")
            for each in waiting:
                each.callback(None)
            return
        if self._protocol is not None:
            self._protocol.close()
            self._protocol = None
        detail = "the directory was closed" if self._is_closed else _explain(failure)
        self._note(False, detail)
        for each in waiting:
            each.errback(self._away(detail))

    async def _connect(self) -> None:
        settings = self.settings
        password, certificates = read_password(settings), self._certificates()
        endpoint: Any = HostnameEndpoint(
            self._reactor, settings.host, settings.port, timeout=settings.connect_timeout
        )
        trusted = trustRootFromCertificates(certificates) if certificates else None
        options: Any = optionsForClientTLS(settings.host, trusted) if settings.is_encrypted else None
        if settings.is_tls:
            endpoint = wrapClientTLS(options, endpoint)
        protocol = LdapProtocol(self._reactor, settings.answer_timeout)
        self._protocol = protocol
        await connectProtocol(endpoint, protocol)
        if settings.starts_tls:
            _check(await protocol.ask(StartTls()), "TLS is refused")
            protocol.start_tls(options)
        _check(await protocol.ask(Bind(settings.bind_name, password)), f"{settings.bind_name} is refused")
        asked = await protocol.ask(Search("", Scope.ENTRY, ANYTHING, ROOT_ATTRIBUTES))
        _check(asked, "the server does not tell of itself")
        if not asked.entries:
            raise UnsuitableServerError("the server does not tell of itself")
        root = read_root(asked.entries[0], settings)
        there = await protocol.ask(Search(root.configuration, Scope.ENTRY, ANYTHING, ("objectClass",)))
        _check(there, f"there is no {root.configuration}")
        self._root = root

    def _certificates(self) -> list[Certificate]:
        path = self.settings.ca_file
        if path is None:
            return []
        try:
            texts = path.read_bytes().split(_BEGIN)[1:]
            found = [Certificate.loadPEM(_BEGIN + text.partition(_END)[0] + _END + b"\n") for text in texts]
        except OSError as error:
            raise LdapConfigurationError(f"ca_file {path}: {error.strerror}") from error
        except Exception as error:
            raise LdapConfigurationError(f"ca_file {path} holds a damaged certificate") from error
        if not found:
            raise LdapConfigurationError(f"ca_file {path} holds no certificate")
        return found

    def _away(self, detail: str) -> DirectoryError:
        return DirectoryError(
            DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, f"{self.settings} cannot be reached: {detail}"
        )

    def _note(self, is_reached: bool, detail: str) -> None:
        if is_reached is not self._was_reached:
            self._was_reached = is_reached
            if is_reached:
                self.log.info("the directory {directory} is reached", directory=self.settings)
            else:
                self.log.warn(
                    "the directory {directory} cannot be reached: {detail}",
                    directory=self.settings,
                    detail=detail,
                )


def _check(answered: Answered, refusal: str) -> None:
    if answered.result.code != SUCCESS:
        message = answered.result.message
        raise LdapDisconnectedError(
            f"{refusal}: code {answered.result.code}{f', {message}' if message else ''}"
        )


def _explain(failure: BaseException) -> str:
    if isinstance(failure, CancelledError):
        return "the attempt was ended"
    return str(failure) or type(failure).__name__
