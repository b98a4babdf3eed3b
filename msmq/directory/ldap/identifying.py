"""Who a queue manager is according to its directory, asked before anything else of it runs."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Self
from uuid import UUID

from msmq.directory.ldap.connection import SUCCESS, LdapConfigurationError, read_password
from msmq.directory.ldap.filters import ANYTHING, Equal, of_class
from msmq.directory.ldap.mapping import GUID
from msmq.directory.ldap.names import CONFIGURATION, child
from msmq.directory.ldap.operations import ALREADY_EXISTS, NO_SUCH_OBJECT
from msmq.directory.ldap.root import ROOT_ATTRIBUTES, Root, UnsuitableServerError, read_root
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.values import unpack_guid
from msmq.directory.ldap.wire import (
    Add,
    Bind,
    Entry,
    LdapWireError,
    Request,
    Result,
    Scope,
    Search,
    StartTls,
    decode,
    encode,
    whole_message,
)

_MOST_ENTRIES = 1000


def identify(settings: LdapSettings, computer_name: str) -> UUID | None:
    """The objectGUID of the mSMQConfiguration of a computer; C{None} if a new one may be anything.

    Where the directory makes identifiers, and the computer has no such entry yet, one without any attribute
    is made, so that the queue manager can be what the directory calls it from its first start on.
    Blocks, for no longer than the settings allow for reaching a server.

    @raise ValueError: the directory cannot be reached, or refuses; its text tells why.
    """
    try:
        with _Conversation(settings) as asked:
            return _identify(asked, settings, computer_name)
    except (OSError, LdapWireError, LdapConfigurationError, UnsuitableServerError) as error:
        raise ValueError(f"{settings} cannot be used: {error}") from error


def _identify(asked: _Conversation, settings: LdapSettings, computer_name: str) -> UUID | None:
    if settings.starts_tls:
        _check(asked.ask(StartTls())[0], "TLS is refused")
        asked.start_tls()
    name = settings.bind_name
    _check(asked.ask(Bind(name, read_password(settings)))[0], f"{name} is refused")
    result, entries = asked.ask(Search("", Scope.ENTRY, ANYTHING, ROOT_ATTRIBUTES))
    _check(result, "the server does not tell of itself")
    if not entries:
        raise ValueError("the server does not tell of itself")
    root = read_root(entries[0], settings)
    computer = _computer(asked, root, computer_name)
    if computer is None:
        if root.makes_identifiers:
            raise ValueError(f"there is no computer {computer_name} in {root.domain}")
        return None
    own = child(CONFIGURATION, computer)
    if root.makes_identifiers:
        made, _ = asked.ask(Add(own, {"objectClass": (b"mSMQConfiguration",)}))
        if made.code != ALREADY_EXISTS:
            _check(made, f"{own} cannot be made")
    result, entries = asked.ask(Search(own, Scope.ENTRY, ANYTHING, (GUID,)))
    if result.code == NO_SUCH_OBJECT:
        return None
    _check(result, own)
    value = entries[0].first(GUID) if entries else None
    return None if value is None else unpack_guid(value)


def _computer(asked: _Conversation, root: Root, name: str) -> str | None:
    wanted = of_class("computer", Equal("cn", name.encode()))
    result, entries = asked.ask(Search(root.domain, Scope.TREE, wanted, (GUID,)))
    if result.code == NO_SUCH_OBJECT:
        return None
    _check(result, root.domain)
    return entries[0].name if entries else None


def _check(result: Result, refusal: str) -> None:
    if result.code != SUCCESS:
        raise ValueError(
            f"{refusal}: LDAP result {result.code}{f' ({result.message})' if result.message else ''}"
        )


class _Conversation:
    """One question after the other, on a connection that waits."""

    def __init__(self, settings: LdapSettings) -> None:
        self._settings = settings
        self._give_up = time.monotonic() + settings.connect_timeout
        self._number = 0
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        settings = self._settings
        self._socket = socket.create_connection((settings.host, settings.port), settings.connect_timeout)
        if settings.is_tls:
            self.start_tls()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def start_tls(self) -> None:
        """Speak TLS from now on."""
        if self._buffer:
            raise LdapWireError("the server sent something in the open where TLS was to begin")
        context = ssl.create_default_context(cafile=self._settings.ca_file)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=self._settings.host)
        except BaseException:
            self._socket.close()
            raise

    def ask(self, request: Request) -> tuple[Result, list[Entry]]:
        """What the server answers."""
        self._number += 1
        self._wait()
        self._socket.sendall(encode(self._number, request))
        entries: list[Entry] = []
        while True:
            number, answer = decode(self._message())
            if number == self._number and isinstance(answer, Result):
                return answer, entries
            if isinstance(answer, Entry):
                entries.append(answer)
                if len(entries) > _MOST_ENTRIES:
                    raise LdapWireError(f"the server sends more than {_MOST_ENTRIES} entries")

    def _message(self) -> bytes:
        while (end := whole_message(self._buffer, 0)) is None:
            self._wait()
            data = self._socket.recv(65536)
            if not data:
                raise LdapWireError("the server hung up")
            self._buffer += data
        message = bytes(self._buffer[:end])
        del self._buffer[:end]
        return message

    def _wait(self) -> None:
        left = self._give_up - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {self._settings.connect_timeout:g} seconds")
        self._socket.settimeout(left)
