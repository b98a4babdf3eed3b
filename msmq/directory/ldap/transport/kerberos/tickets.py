"""Kerberos tickets of one account: the only module that uses C{gssapi}, all of whose calls may block.

The calls run one at a time in a thread of their own, which is a daemon, so that a domain controller that
does not answer delays neither the reactor nor the end of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import new as new_hash
from itertools import count
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, Final, TypeVar

import attrs
from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.python.failure import Failure

from msmq.directory.ldap.transport.kerberos.bind_exchange import BindRefusedError
from msmq.directory.ldap.transport.kerberos.failures import FailureKind, describe_failure
from msmq.directory.ldap.transport.kerberos.keytab import KeytabError, read_principal
from msmq.directory.ldap.transport.protocol import LdapDisconnectedError

T = TypeVar("T")

CACHES: Final = 64
"""Number of memory caches of one account, used in rotation, so that rejected tickets are not reused."""

CACHES_APART: Final = 600.0
"""Minimum seconds between two changes of the cache; a cache is reused after its tickets have expired."""

_SPNEGO: Final = "1.3.6.1.5.5.2"
_NO_CONFIDENTIALITY_OR_INTEGRITY: Final = "1.2.752.43.13.29"
"""GSS_KRB5_CRED_NO_CI_FLAGS_X; without it a server expects signed or encrypted messages, within TLS too."""

_NUMBERS = count(1)


class KdcUnreachableError(LdapDisconnectedError):
    """No domain controller answers Kerberos requests."""


def require_gssapi() -> ModuleType:
    """The package C{gssapi}.

    @raise KeytabError: it is not installed, or cannot find the system's Kerberos library.
    """
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise KeytabError(
            "a keytab needs gssapi; install msmq[kerberos], for which pip needs a C compiler and the headers"
            f" of MIT Kerberos (Debian: apt-get install gcc libkrb5-dev) ({error})"
        ) from error
    module: ModuleType = gssapi
    return module


def channel_binding(certificate: bytes, hash_name: str | None) -> bytes | None:
    """The binding of a context to its TLS connection: tls-server-end-point. RFC 5929 4.1.

    @param certificate: of the server, DER.
    @param hash_name: the hash function of the certificate's signature.
    @return: C{None} for a signature that has none, for which the RFC defines no binding.
    """
    if hash_name is None:
        return None
    name = "sha256" if hash_name in ("md5", "sha1") else hash_name
    return b"tls-server-end-point:" + new_hash(name, certificate).digest()


@attrs.frozen(eq=False)
class ClientContext:
    """Security context with one server, while it is being established.

    @ivar principal: the account.
    @ivar service: the server's principal.
    """

    principal: str
    service: str
    context: Any = attrs.field(repr=False)


class KerberosAccount:
    """Account of a domain whose key is in a keytab.

    Its tickets are kept in memory only; they are requested on demand, and again when they have expired.

    @param keytab: the file, which is read again for each connection.
    @param principal: as L{read_principal} takes it.
    @param reactor: of Twisted.
    """

    def __init__(self, keytab: Path, principal: str, reactor: Any) -> None:
        self._keytab = keytab
        self._principal = principal
        self._reactor = reactor
        self._lock = DeferredLock()
        self._is_checking = False
        self._checks: list[Deferred[str]] = []
        self._number = next(_NUMBERS)
        self._cache = 0
        self._next_cache = 0.0

    @property
    def cache_name(self) -> str:
        """The name of the memory credential cache with the tickets."""
        return f"MEMORY:msmq-{self._number}-{self._cache}"

    async def check(self) -> str:
        """Check the keytab and the library, and return the principal.

        Loading C{gssapi} takes 25 ms of processor time and reading the keytab may block, so both are done in
        a thread; it does not wait for one that waits for a domain controller. A check that is under way
        serves all callers, so that a keytab on a file system that hangs occupies one thread.

        @raise KeytabError: one of them cannot be used.
        @raise KdcUnreachableError: no thread can be started.
        """

        def read() -> str:
            require_gssapi()
            return read_principal(self._keytab, self._principal)

        if not self._is_checking:
            checking = self._start_thread(read)
            self._is_checking = True
            checking.addBoth(self._checked)
        waiting: Deferred[str] = Deferred(self._checks.remove)
        self._checks.append(waiting)
        return await waiting

    def _checked(self, outcome: str | Failure) -> None:
        self._is_checking = False
        checks, self._checks = self._checks, []
        while checks:
            # Its caller may cancel another one.
            checks.pop(0).callback(outcome)

    async def start(self, host: str, binding: bytes | None) -> tuple[ClientContext, bytes | None, bool]:
        """Begin a context with the LDAP server at a host.

        @param binding: of the TLS connection.
        @return: the context, what it produced, and whether it is complete.
        @raise KeytabError: the keytab or C{gssapi} cannot be used.
        @raise KdcUnreachableError: no domain controller answers.
        @raise BindRefusedError: the domain refuses the account, or does not know the server.
        """
        principal = await self.check()
        service = f"ldap/{host}@{principal.rpartition('@')[2]}"
        cache = self.cache_name

        def begin() -> tuple[ClientContext, bytes | None, bool]:
            context = _context(principal, service, binding, str(self._keytab), cache)
            token = context.step()
            return ClientContext(principal, service, context), token, context.complete

        return await self._run(begin, principal, service)

    async def step(self, client: ClientContext, token: bytes) -> tuple[bytes | None, bool]:
        """Pass the token of the server to a context.

        @return: what it produced, and whether it is complete.
        @raise BindRefusedError: the server did not prove its identity.
        """
        context = client.context
        return await self._run(
            lambda: (context.step(token), context.complete), client.principal, client.service
        )

    def renew(self) -> None:
        """Use new tickets from now on, because a server has rejected the current ones."""
        now = self._reactor.seconds()
        if now >= self._next_cache:
            self._next_cache = now + CACHES_APART
            self._cache = (self._cache + 1) % CACHES

    async def _run(self, call: Callable[[], T], principal: str, service: str) -> T:
        gssapi: Any = require_gssapi()
        try:
            return await self._in_thread(call)
        except CancelledError as error:
            realm = principal.rpartition("@")[2]
            raise KdcUnreachableError(
                f"no domain controller of the realm {realm} has answered a Kerberos request in time"
            ) from error
        except gssapi.exceptions.GSSError as error:
            failure = describe_failure(str(error), principal, service)
            if failure.kind is FailureKind.AWAY:
                raise KdcUnreachableError(failure.text) from error
            raise BindRefusedError(failure.text) from error

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """The result of a call in a thread; calls of one account are made one at a time.

        A wait for it can be cancelled; the call itself cannot, and the next one begins when it has ended.
        """
        await self._lock.acquire()
        try:
            done = self._start_thread(call, self._lock.release)
        except KdcUnreachableError:
            self._lock.release()
            raise
        return await done

    def _start_thread(self, call: Callable[[], T], ended: Callable[[], Any] = lambda: None) -> Deferred[T]:
        """The result of a call in a new daemon thread.

        @param ended: called in the thread of the reactor when the call has ended.
        @raise KdcUnreachableError: no thread can be started.
        """
        done: Deferred[T] = Deferred()

        def finish(outcome: T | Failure) -> None:
            ended()
            done.callback(outcome)

        def work() -> None:
            outcome: T | Failure
            try:
                outcome = call()
            except BaseException:
                outcome = Failure()
            self._reactor.callFromThread(finish, outcome)

        try:
            Thread(target=work, name="msmq-kerberos", daemon=True).start()
        except RuntimeError as error:
            raise KdcUnreachableError(f"no thread can be started for Kerberos: {error}") from error
        return done


def _context(principal: str, service: str, binding: bytes | None, keytab: str, cache: str) -> Any:
    """A context that proves the identity of both sides, and neither signs nor encrypts."""
    gssapi: Any = require_gssapi()
    kind = gssapi.NameType.kerberos_principal
    credentials = gssapi.Credentials(
        name=gssapi.Name(principal, kind),
        usage="initiate",
        store={"client_keytab": f"FILE:{keytab}", "ccache": cache},
    )
    flags = gssapi.OID.from_int_seq(_NO_CONFIDENTIALITY_OR_INTEGRITY)
    gssapi.raw.set_cred_option(flags, credentials, b"")
    bound = None if binding is None else gssapi.raw.ChannelBindings(application_data=binding)
    return gssapi.SecurityContext(
        name=gssapi.Name(service, kind),
        creds=credentials,
        usage="initiate",
        mech=gssapi.OID.from_int_seq(_SPNEGO),
        flags=gssapi.RequirementFlag.mutual_authentication,
        channel_bindings=bound,
    )
