"""Direct format names: a queue by the address of its computer. [MS-MQMQ] 2.1.2."""

from __future__ import annotations

import enum
import ipaddress
import re
from functools import lru_cache
from typing import Final

import attrs

from msmq.quoting import quoted
from msmq.structures.names.name_text import (
    COMPUTER_SUFFIXES,
    PRIVATE,
    SYSTEM,
    QueueSuffix,
    Span,
    computer_name,
    format_name_span,
    optional_lower,
    queue_name,
    read_tail,
    subqueue_name,
)


class DirectProtocol(enum.Enum):
    """How the computer of a direct name is addressed. [MS-MQMQ] 2.1.2."""

    TCP = "TCP"
    OS = "OS"
    HTTP = "HTTP"
    HTTPS = "HTTPS"
    IPX = "IPX"

    # Names are looked up for every message.
    __hash__ = object.__hash__

    @property
    def is_http(self) -> bool:
        """Whether the address is a URL with a port."""
        return self in DEFAULT_PORTS


DEFAULT_PORTS: Final = {DirectProtocol.HTTP: 80, DirectProtocol.HTTPS: 443}

PRIVATE_IN_URL: Final = f"{PRIVATE[:-1]}/"
"""The prefix of a private queue in a URL with slashes."""

_PROTOCOLS: Final = {protocol.value.lower(): protocol for protocol in DirectProtocol}
_IPX_ADDRESS: Final = re.compile(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,12}")
_HTTP_HOST: Final = re.compile(r"\[[0-9A-Fa-f:.]+\]|[^/:\[\]]+")


@attrs.frozen
class DirectFormatName:
    r"""A queue by the address of its computer, found without a directory. [MS-MQMQ] 2.1.2.

    Compared without regard to case.

    @ivar protocol: the kind of C{address}.
    @ivar address: an IP address, a computer name, the host of a URL, or an IPX network and host number.
    @ivar queue: the queue's own name without C{private$\}; empty for one of the computer's system queues.
    @ivar is_private: whether the queue is private rather than public.
    @ivar suffix: which system queue; with a queue, L{QueueSuffix.JOURNAL} is the journal of that queue.
    @ivar subqueue: the subqueue's name.
    @ivar port: the port of an HTTP or HTTPS address, 80 or 443 by default; L{None} for the other protocols.
    """

    protocol: DirectProtocol
    address: str = attrs.field(eq=str.lower)
    queue: str = attrs.field(default="", eq=str.lower)
    is_private: bool = False
    suffix: QueueSuffix = QueueSuffix.NONE
    subqueue: str | None = attrs.field(default=None, eq=optional_lower)
    port: int | None = attrs.field()

    @port.default
    def _default_port(self) -> int | None:
        return DEFAULT_PORTS.get(self.protocol)

    def __attrs_post_init__(self) -> None:
        _check_address(self.protocol, format_name_span(self.address), lenient=True)
        if (self.port is None) == self.protocol.is_http or not 0 <= (self.port or 0) <= 0xFFFF:
            raise format_name_span(str(self)).illegal(f"{self.protocol.value} with port {self.port}")
        if self.suffix is not QueueSuffix.NONE and self.subqueue is not None:
            raise format_name_span(str(self)).illegal("both a subqueue and a suffix")
        if not self.queue:
            if self.is_private or self.subqueue is not None or self.suffix not in COMPUTER_SUFFIXES:
                raise format_name_span(str(self)).illegal("a queue name is missing")
            return
        _check_queue(format_name_span(self.queue), is_private=self.is_private, is_url=self.protocol.is_http)
        if self.suffix not in (QueueSuffix.NONE, QueueSuffix.JOURNAL):
            raise format_name_span(str(self)).illegal(f"{self.suffix.value} belongs to a computer")
        if self.subqueue is not None:
            subqueue_name(format_name_span(self.subqueue), lenient=True)

    @classmethod
    def from_wire_text(cls, text: str, *, lenient: bool = True) -> DirectFormatName:
        """The name in a packet, usually without C{DIRECT=}; C{SPX} is read as C{IPX}.

        @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME.
        """
        parse = _parse_wire_text if len(text) > LONGEST_REMEMBERED else _remembered
        return parse(text, lenient)

    @property
    def is_system(self) -> bool:
        """Whether this is one of the computer's own queues."""
        return not self.queue

    @property
    def queue_path(self) -> str:
        r"""The queue part without suffix and subqueue: C{private$\orders}, C{orders} or C{system$}."""
        if not self.queue:
            return SYSTEM[:-1]
        return f"{PRIVATE}{self.queue}" if self.is_private else self.queue

    @property
    def wire_text(self) -> str:
        """The text without C{DIRECT=}, as packets carry it."""
        address = self.address
        if self.protocol.is_http:
            is_default = self.port == DEFAULT_PORTS[self.protocol]
            address = f"//{address}/MSMQ" if is_default else f"//{address}:{self.port}/MSMQ"
        tail = self.suffix.tail if self.subqueue is None else f";{self.subqueue}"
        return f"{self.protocol.value}:{address}\\{self.queue_path}{tail}"

    def __str__(self) -> str:
        return f"DIRECT={self.wire_text}"


def _parse_wire_text(text: str, lenient: bool) -> DirectFormatName:
    span = format_name_span(text)
    if span.lower.startswith("direct="):
        span = span.after(len("direct="))
    if span.lower.startswith("spx:"):
        return _parse_address(DirectProtocol.IPX, span.after(len("spx:")), lenient)
    return parse_direct(span, lenient)


REMEMBERED_NAMES: Final = 1024
"""Limit on the names whose values are kept: a peer sends few, and each with many messages."""
LONGEST_REMEMBERED: Final = 512
"""Characters of a name beyond which it is parsed each time, since peers choose what is kept."""

_remembered = lru_cache(REMEMBERED_NAMES)(_parse_wire_text)


def parse_direct(span: Span, lenient: bool) -> DirectFormatName:
    """Parse the part after C{DIRECT=}.

    @raise MQError: with the status of C{span}.
    """
    name, rest = span.partition(":")
    protocol = _PROTOCOLS.get(name.lower)
    if protocol is None or rest is None:
        raise name.illegal("expected TCP:, OS:, HTTP:, HTTPS: or IPX:")
    return _parse_address(protocol, rest, lenient)


def _parse_address(protocol: DirectProtocol, span: Span, lenient: bool) -> DirectFormatName:
    if protocol.is_http:
        return _parse_url(protocol, span, lenient)
    address, rest = span.partition("\\")
    if protocol is DirectProtocol.TCP:
        address = _without_brackets(address)
    _check_address(protocol, address, lenient=lenient)
    if rest is None:
        raise address.illegal("a backslash and a queue name are missing", len(address))
    return _parse_queue(protocol, address.text, None, rest, lenient)


def _without_brackets(span: Span) -> Span:
    """An IPv6 address in the brackets of a URL is the address; the canonical name has none.

    @raise MQError: there is no IPv6 address between the brackets.
    """
    text = span.text
    if not (text.startswith("[") and text.endswith("]")):
        return span
    try:
        ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        raise span.illegal(f"{text} is not an IPv6 address in brackets") from None
    return attrs.evolve(span, start=span.start + 1, end=span.end - 1)


def _parse_url(protocol: DirectProtocol, span: Span, lenient: bool) -> DirectFormatName:
    if not span.text.startswith("//"):
        raise span.illegal("expected //")
    authority, rest = span.after(2).partition("/")
    host = _HTTP_HOST.match(authority.text)
    address = attrs.evolve(authority, end=authority.start + (host.end() if host else 0))
    _check_address(protocol, address, lenient=lenient)
    port = DEFAULT_PORTS[protocol]
    digits = authority.after(len(address))
    if digits:
        if re.fullmatch(r":[0-9]{0,5}", digits.text) is None or int(digits.text[1:] or "0") > 0xFFFF:
            raise digits.illegal("expected a colon and a port of 0 to 65535")
        port = int(digits.text[1:]) if len(digits) > 1 else port
    if rest is None:
        raise authority.illegal("/MSMQ is missing", len(authority))
    if rest.lower[:4] != "msmq" or rest.text[4:5] not in ("\\", "/"):
        raise rest.illegal("expected MSMQ and a backslash")
    return _parse_queue(protocol, address.text, port, rest.after(5), lenient)


def _check_address(protocol: DirectProtocol, span: Span, *, lenient: bool) -> None:
    address = computer_name(span, lenient=lenient)
    match protocol:
        case DirectProtocol.TCP:
            try:
                ipaddress.ip_address(address)
            except ValueError:
                raise span.illegal(f"{quoted(address)} is not an IP address") from None
        case DirectProtocol.IPX:
            if _IPX_ADDRESS.fullmatch(address) is None:
                raise span.illegal(f"{quoted(address)} is not an IPX network number, colon and host number")
        case DirectProtocol.HTTP | DirectProtocol.HTTPS:
            if _HTTP_HOST.fullmatch(address) is None:
                raise span.illegal(f"{quoted(address)} is not a host of a URL")
        case DirectProtocol.OS:
            pass


def _check_queue(span: Span, *, is_private: bool, is_url: bool, lenient: bool = True) -> str:
    queue = queue_name(span, lenient=lenient)
    if not is_private:
        name = span.lower
        if name in (PRIVATE[:-1], SYSTEM[:-1]) or (is_url and name.startswith(PRIVATE_IN_URL)):
            raise span.illegal(f"{queue} is not a name of a public queue")
    return queue


def _parse_queue(
    protocol: DirectProtocol, address: str, port: int | None, span: Span, lenient: bool
) -> DirectFormatName:
    if span.lower.startswith(SYSTEM):
        word = span.after(len(SYSTEM))
        for suffix in COMPUTER_SUFFIXES:
            if word.lower == suffix.value.lower():
                return DirectFormatName(protocol, address, suffix=suffix, port=port)
        raise word.illegal(f"{quoted(word.text)} is not one of JOURNAL, DEADLETTER and DEADXACT")
    is_private = span.lower.startswith(PRIVATE) or (
        protocol.is_http and span.lower.startswith(PRIVATE_IN_URL)
    )
    name, tail = (span.after(len(PRIVATE)) if is_private else span).partition(";")
    queue = _check_queue(name, is_private=is_private, is_url=protocol.is_http, lenient=lenient)
    suffix, subqueue = read_tail(tail, lenient=lenient)
    return DirectFormatName(protocol, address, queue, is_private, suffix, subqueue, port)
