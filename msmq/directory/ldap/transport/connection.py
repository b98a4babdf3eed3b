"""Connection to one of the servers of a directory, established on demand and after a loss."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol, wrapClientTLS
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.certificates import (
    LdapConfigurationError,
    VerifiedServer,
    read_certificates,
)
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.kerberos.bind_exchange import BindRefusedError
from msmq.directory.ldap.transport.kerberos.keytab import KeytabError
from msmq.directory.ldap.transport.kerberos.sasl_bind import bind
from msmq.directory.ldap.transport.kerberos.tickets import KerberosAccount
from msmq.directory.ldap.transport.protocol import (
    Answered,
    LdapAnswerError,
    LdapDisconnectedError,
    LdapProtocol,
    LdapUnansweredError,
)
from msmq.directory.ldap.transport.referrals import (
    WRITER_TIME,
    is_elsewhere,
    is_write,
    settings_for,
    writable_servers,
)
from msmq.directory.ldap.transport.results import SUCCESS, describe
from msmq.directory.ldap.transport.root import ROOT_ATTRIBUTES, Root, UnsuitableServerError, read_root
from msmq.directory.ldap.transport.wire import Bind, LdapControl, Request, Scope, SearchRequest, StartTls
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult

LONGEST_PASSWORD: Final = 1024

MOST_SERVERS: Final = 100
"""Limit on the known servers, from any source."""

ATTEMPTS_APART: Final = 0.25
"""Minimum seconds between the beginnings of two attempts to connect."""

FindServers: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
"""Discovers servers, and returns their names or addresses."""

Noted: TypeAlias = Callable[[LdapServer | None, str], None]
"""Called with the connected server, or with the reason that there is none."""


class LdapRefusedError(LdapDisconnectedError):
    """A connected server refuses the account, or lacks the base."""


class UntrustedServerError(LdapDisconnectedError):
    """The certificate of a server is refused."""


def read_password(settings: LdapSettings) -> bytes:
    """The password for the bind; empty for an anonymous bind.

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
        # A bind with a name and no password is an anonymous bind on many servers.
        raise LdapConfigurationError(f"password_file {path} is empty")
    if len(password) > LONGEST_PASSWORD:
        raise LdapConfigurationError(f"password_file {path} has more than {LONGEST_PASSWORD} bytes")
    return password


class LdapConnection:
    """Connects to a server when there is a request and no connection.

    Concurrent requests wait for the same attempt; after a failed attempt the next is made with the next
    request.
    Attempts begin at least a quarter of a second apart: a request that comes earlier waits until then, so
    that a server that is down, or that closes each connection, is not contacted at the rate of the requests.
    An attempt tries one server after another, the one that was lost as the last.
    If no servers are configured they are discovered: before the first attempt, which waits for it, and after
    a failed attempt, which does not.

    @ivar settings: servers, credentials and TLS.
    @ivar servers: the known servers, in the order in which they are tried.
    @ivar is_refused: whether a server in the last attempt refused the account, or could not be verified;
        another attempt fails too until the configuration changes.
    @param find_servers: called where the settings name no server.
    @param noted: called with the connected server, or with C{None} and the reason when there is none; each
        time that this changes. It must not raise, since requests wait for its end.
    @param account: that of another connection, to share its tickets; by default the connection creates an
        account of its own where the settings have a keytab.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        settings: LdapSettings,
        reactor: Any,
        find_servers: FindServers | None = None,
        noted: Noted | None = None,
        account: KerberosAccount | None = None,
    ) -> None:
        self.settings = settings
        if account is None and settings.keytab is not None:
            account = KerberosAccount(settings.keytab, settings.principal, reactor)
        self._account = account
        self._report = noted
        self.servers = list(settings.servers)
        self._find_servers = None if settings.servers else find_servers
        self._reactor = reactor
        self._server: LdapServer | None = None
        self._protocol: LdapProtocol | None = None
        # Requests are sent only after TLS, the bind, and the RootDSE.
        self._opening: LdapProtocol | None = None
        self._root: Root | None = None
        self._attempt: Deferred[None] | None = None
        self._search: Deferred[None] | None = None
        self._waiting: list[Deferred[None]] = []
        self._is_noted = False
        self._noted: LdapServer | None = None
        self._is_closed = False
        self._number = 0
        self._next_attempt = 0.0
        self.is_refused = False
        self._writer: LdapConnection | None = None
        self._writer_until = 0.0

    def add_servers(self, names: Sequence[str]) -> None:
        """Add servers to try after the known ones; only where the settings name none.

        @param names: of computers, or addresses.
        """
        if self.settings.servers:
            return
        for name in names:
            server = LdapServer(name.lower(), self.settings.port)
            if server not in self.servers and len(self.servers) < MOST_SERVERS:
                self.servers.append(server)

    async def find_servers(self) -> None:
        """Discover servers if the settings name none; they are added to L{servers}."""
        if self._find_servers is not None:
            self.add_servers(await self._find_servers())

    async def check(self) -> None:
        """Check that the files of the configuration can be used.

        @raise LdapConfigurationError: with the first that cannot.
        """
        read_password(self.settings)
        read_certificates(self.settings.ca_file)
        if self._account is not None:
            try:
                await self._account.check()
            except KeytabError as error:
                raise LdapConfigurationError(str(error)) from error

    async def root(self) -> Root:
        """The RootDSE of the server.

        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}.
        """
        await self._reach()
        if self._root is None:
            raise self._away("the connection was lost")
        return self._root

    async def number(self) -> int:
        """The number of the connection, which increases with each new connection.

        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}.
        """
        await self._reach()
        return self._number

    def current(self) -> LdapConnection:
        """This connection; or for some minutes after a write was referred, the one to the server that did it,
        since others have not replicated it yet.
        """
        writer = self._writer
        if writer is None or writer.is_away or self._reactor.seconds() >= self._writer_until:
            return self
        return writer

    @property
    def is_away(self) -> bool:
        """Whether the last attempt to reach a server failed."""
        return self._is_noted and self._noted is None

    async def ask(
        self, request: Request, controls: Sequence[LdapControl] = (), *, repeatable: bool = False
    ) -> Answered:
        """Send a request to the server, or a write to the one to which it refers; returns any result.

        @param repeatable: if a server is lost before it has answered, and may have executed the request, it
            may be repeated on another.
        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}.
        """
        connection = self.current()
        try:
            answered = await connection.ask_here(request, controls, repeatable=repeatable)
        except DirectoryError:
            if connection is self:
                raise
            self._writer_until = 0.0
            if not repeatable:
                raise
            return await self.ask_here(request, controls, repeatable=True)
        if not is_write(request):
            return answered
        if is_elsewhere(answered.result):
            return await self._write_elsewhere(request, controls, answered)
        if connection is not self:
            self._writer_until = self._reactor.seconds() + WRITER_TIME
        return answered

    async def _write_elsewhere(
        self, request: Request, controls: Sequence[LdapControl], refused: Answered
    ) -> Answered:
        """Send a write to a server to which a read-only one refers.

        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}; the text has the reason for each.
        """
        faults = []
        for server in writable_servers(refused.result, self.settings, self.servers, self._server):
            writer = self._writer
            try:
                if writer is None or writer.servers != [server]:
                    if writer is not None:
                        writer.close()
                    writer = self._writer = LdapConnection(
                        settings_for(server, self.settings), self._reactor, account=self._account
                    )
                answered = await writer.ask_here(request, controls)
            except (DirectoryError, ValueError) as error:
                faults.append(f"{server}: {error.detail if isinstance(error, DirectoryError) else error}")
                continue
            if not is_elsewhere(answered.result):
                self._writer_until = self._reactor.seconds() + WRITER_TIME
                return answered
            faults.append(f"{server}: {describe(answered.result)}")
        named = ", ".join(refused.result.referrals) or "no other server"
        detail = "; ".join(faults) or f"it refers to {named}"
        raise DirectoryError(
            DirectoryOperationResult.DIRECTORY_NOT_CONNECTED,
            f"{self._server} is read-only, and no server accepts the write: {detail}",
        )

    async def ask_here(
        self, request: Request, controls: Sequence[LdapControl] = (), *, repeatable: bool = False
    ) -> Answered:
        """Send a request to the server of this connection; returns any result.

        @param repeatable: if a server is lost before it has answered, and may have executed the request, it
            may be repeated on another server, or on another connection.
        @raise DirectoryError: C{DIRECTORY_NOT_CONNECTED}; C{GENERIC_ERROR} for an answer that is too large.
        """
        while True:
            await self._reach()
            protocol = self._protocol
            if protocol is None:
                raise self._away("the connection was lost")
            try:
                return await protocol.ask(request, controls)
            except LdapAnswerError as error:
                raise DirectoryError(DirectoryOperationResult.GENERIC_ERROR, str(error)) from error
            except LdapDisconnectedError as error:
                self._try_last(self._server)
                # The only server may have closed an idle connection; after a timeout there is no repetition.
                is_silent = isinstance(error, LdapUnansweredError) and len(self.servers) == 1
                if not repeatable or self._is_closed or is_silent:
                    self._note(None, str(error))
                    raise self._away(str(error)) from error
                repeatable = False

    def close(self) -> None:
        """Close the connection permanently; pending requests fail."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for each in (self._attempt, self._search):
            if each is not None:
                each.cancel()
        self._hang_up()

    def reopen(self) -> None:
        """Connect again with the next request."""
        self._is_closed = False

    async def _reach(self) -> None:
        if self._is_closed:
            raise DirectoryError(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, "the directory is closed")
        if self._protocol is not None and self._protocol.is_connected:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting.append(waiting)
        if self._attempt is None:
            attempt = Deferred.fromCoroutine(self._reach_one())
            self._attempt = attempt
            attempt.addBoth(self._attempted)
        await waiting

    def _attempted(self, outcome: object) -> None:
        self._attempt = None
        waiting, self._waiting = self._waiting, []
        failure = getattr(outcome, "value", None)
        if failure is None:
            self._note(self._server)
            for each in waiting:
                each.callback(None)
            return
        self._hang_up()
        detail = "the directory was closed" if self._is_closed else _explain(failure)
        self._note(None, detail)
        if not self._is_closed and self._search is None and self._find_servers is not None:
            self._search = Deferred.fromCoroutine(self.find_servers())
            self._search.addErrback(self._not_found).addBoth(self._looked)
        for each in waiting:
            each.errback(self._away(detail))

    def _not_found(self, failure: Failure) -> None:
        if not failure.check(CancelledError):
            self.log.failure("directory servers could not be discovered", failure)

    def _looked(self, _: object) -> None:
        self._search = None

    def _hang_up(self) -> None:
        for each in (self._protocol, self._opening):
            if each is not None:
                each.close()
        self._protocol = self._opening = None

    def _try_last(self, server: LdapServer | None) -> None:
        if server in self.servers:
            self.servers.remove(server)
            self.servers.append(server)

    async def _reach_one(self) -> None:
        """Connect to the first reachable server.

        @raise LdapDisconnectedError: there is none; the text has the reason for each.
        """
        if not self.servers:
            await self.find_servers()
        pause = self._next_attempt - self._reactor.seconds()
        if self.servers and pause > 0:
            await deferLater(self._reactor, pause)
        self._next_attempt = self._reactor.seconds() + ATTEMPTS_APART
        faults: dict[LdapServer, str] = {}
        self.is_refused = False
        for server in list(self.servers):
            attempt = Deferred.fromCoroutine(self._connect(server))
            attempt.addTimeout(self.settings.connect_timeout, self._reactor, _took_too_long)
            try:
                await attempt
            except CancelledError:
                raise
            except Exception as error:  # Endpoints, TLS and names have errors of their own.
                self._hang_up()
                if self._is_closed:
                    # The error of Kerberos for a step that was cancelled is not that of the cancellation.
                    raise
                faults[server] = _explain(error)
                self.is_refused |= _is_refusal(error)
            else:
                self._server = server
                self._number += 1
                for each in faults:
                    self._try_last(each)
                return
        if len(faults) == 1:
            [(_, fault)] = faults.items()
            raise LdapDisconnectedError(fault)
        detail = "; ".join(f"{server}: {fault}" for server, fault in faults.items())
        raise LdapDisconnectedError(detail or "no directory server is known, and none was found")

    async def _connect(self, server: LdapServer) -> None:
        settings = self.settings
        verified = None
        if settings.is_encrypted:
            verified = VerifiedServer(server.host, read_certificates(settings.ca_file))
        try:
            await self._connect_verified(server, verified)
        except LdapDisconnectedError as error:
            if verified is not None and verified.fault:
                raise UntrustedServerError(verified.fault) from error
            raise

    async def _connect_verified(self, server: LdapServer, verified: VerifiedServer | None) -> None:
        """Connect and bind.

        @param verified: verifies the server's certificate; C{None} without TLS.
        """
        settings, options = self.settings, cast(Any, verified)
        password = read_password(settings)
        endpoint: Any = HostnameEndpoint(
            self._reactor, server.host, server.port, timeout=settings.connect_timeout
        )
        if settings.is_tls:
            endpoint = wrapClientTLS(options, endpoint)
        protocol = LdapProtocol(self._reactor, settings.answer_timeout)
        self._opening = protocol
        await connectProtocol(endpoint, protocol)
        if settings.starts_tls:
            _check(await protocol.ask(StartTls()), "TLS is refused")
            protocol.start_tls(options)
        if self._account is not None:
            await bind(protocol, server.host, self._account)
        else:
            bound = await protocol.ask(Bind(settings.bind_name, password))
            _check(bound, f"{settings.bind_name} is refused")
        asked = await protocol.ask(SearchRequest("", Scope.ENTRY, ANYTHING, ROOT_ATTRIBUTES))
        _check(asked, "the server does not return its RootDSE")
        if not asked.entries:
            raise UnsuitableServerError("the server does not return its RootDSE")
        root = read_root(asked.entries[0], settings)
        there = await protocol.ask(SearchRequest(root.configuration, Scope.ENTRY, ANYTHING, ("objectClass",)))
        _check(there, f"there is no {root.configuration}")
        self._root = root
        self._protocol, self._opening = protocol, None

    def _away(self, detail: str) -> DirectoryError:
        return DirectoryError(
            DirectoryOperationResult.DIRECTORY_NOT_CONNECTED, f"{self.settings} cannot be reached: {detail}"
        )

    def _note(self, server: LdapServer | None, detail: str = "") -> None:
        """Log a change of the connected server.

        @param server: the connected one; C{None} if there is none.
        """
        if self._is_noted and server == self._noted:
            return
        self._is_noted, self._noted = True, server
        if self._report is not None and not self._is_closed:
            self._report(server, detail)
        if server is not None:
            self.log.info(
                "the directory {directory} is reached at {server}", directory=self.settings, server=server
            )
        else:
            self.log.warn(
                "the directory {directory} cannot be reached: {detail}",
                directory=self.settings,
                detail=detail,
            )


_REFUSALS: Final = (
    LdapRefusedError,
    UntrustedServerError,
    UnsuitableServerError,
    LdapConfigurationError,
    KeytabError,
    BindRefusedError,
)


def _check(answered: Answered, refusal: str) -> None:
    if answered.result.code != SUCCESS:
        raise LdapRefusedError(f"{refusal}: {describe(answered.result)}")


def _is_refusal(error: Exception) -> bool:
    """Whether an error is of the configuration: of account, base, files, or trust in a certificate."""
    return isinstance(error, _REFUSALS)


def _explain(failure: BaseException) -> str:
    if isinstance(failure, CancelledError):
        return "the attempt was cancelled"
    return str(failure) or type(failure).__name__


def _took_too_long(outcome: object, timeout: float) -> Any:
    if isinstance(outcome, Failure) and outcome.check(CancelledError):
        raise LdapDisconnectedError(f"not reached within {timeout:g} seconds")
    return outcome
