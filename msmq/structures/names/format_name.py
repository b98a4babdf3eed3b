"""Format names: the addresses of queues, and their parser. [MS-MQMQ] 2.1.2 to 2.1.7.

C{str()} of every class is its canonical text; L{parse_format_name} parses it into an equal value.
A class rejects values without a text form; it allows the characters of the lenient alphabet, because names
that peers send may contain them.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final
from uuid import UUID

import attrs

from msmq.quoting import quoted
from msmq.structures.names.direct_format_name import DirectFormatName, DirectProtocol, parse_direct
from msmq.structures.names.name_text import (
    COMPUTER_SUFFIXES,
    DOMAIN,
    DOMAIN_LENGTH,
    DOMAIN_LENIENT,
    QueueSuffix,
    Span,
    check,
    format_name_span,
    optional_lower,
)
from msmq.wire.guid import GUID_TEXT, format_guid

__all__ = [
    "ConnectorFormatName",
    "DirectFormatName",
    "DirectProtocol",
    "DistributionListFormatName",
    "FormatName",
    "MachineFormatName",
    "MulticastFormatName",
    "PrivateFormatName",
    "PublicFormatName",
    "QueueSuffix",
    "is_read_only",
    "parse_format_name",
    "parse_format_names",
]

_OCTETS: Final = re.compile(r"(0|[1-9][0-9]{0,2})(\.(0|[1-9][0-9]{0,2})){3}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,4}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_PREFIX: Final = "formatname:"
"""The prefix of format names in Windows' programming interfaces, in any case; packets do not have it."""


@attrs.frozen
class PublicFormatName:
    """A queue by its GUID in the directory, or its journal. [MS-MQMQ] 2.1.3."""

    SUFFIXES: ClassVar = (QueueSuffix.NONE, QueueSuffix.JOURNAL)

    queue: UUID
    suffix: QueueSuffix = QueueSuffix.NONE

    def __attrs_post_init__(self) -> None:
        _check_suffix(self, self.suffix, self.SUFFIXES)

    def __str__(self) -> str:
        return f"PUBLIC={format_guid(self.queue)}{self.suffix.tail}"


@attrs.frozen
class PrivateFormatName:
    """A private queue by its queue manager and its number there, or its journal. [MS-MQMQ] 2.1.4.

    @ivar number: 0 to 0xFFFFFFFF; printed as eight hex digits.
    """

    SUFFIXES: ClassVar = (QueueSuffix.NONE, QueueSuffix.JOURNAL)

    queue_manager: UUID
    number: int
    suffix: QueueSuffix = QueueSuffix.NONE

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.number <= 0xFFFFFFFF:
            raise format_name_span(str(self)).illegal(f"queue number {self.number} does not fit 32 bits")
        _check_suffix(self, self.suffix, self.SUFFIXES)

    def __str__(self) -> str:
        return f"PRIVATE={format_guid(self.queue_manager)}\\{self.number:08X}{self.suffix.tail}"


@attrs.frozen
class DistributionListFormatName:
    """A distribution list of the directory. [MS-MQMQ] 2.1.5.

    @ivar domain: its domain, compared without regard to case.
    """

    identifier: UUID
    domain: str | None = attrs.field(default=None, eq=optional_lower)

    def __attrs_post_init__(self) -> None:
        if self.domain is not None:
            check(format_name_span(self.domain), "domain name", DOMAIN_LENIENT, DOMAIN_LENGTH)

    def __str__(self) -> str:
        return f"DL={format_guid(self.identifier)}" + ("" if self.domain is None else f"@{self.domain}")


@attrs.frozen
class MachineFormatName:
    """A system queue of a computer, selected by C{suffix}. [MS-MQMQ] 2.1.6."""

    SUFFIXES: ClassVar = COMPUTER_SUFFIXES

    queue_manager: UUID
    suffix: QueueSuffix

    def __attrs_post_init__(self) -> None:
        _check_suffix(self, self.suffix, self.SUFFIXES)

    def __str__(self) -> str:
        return f"MACHINE={format_guid(self.queue_manager)}{self.suffix.tail}"


@attrs.frozen
class ConnectorFormatName:
    """The connector queue of a foreign site, or its transactional one. [MS-MQMQ] 2.1.6."""

    SUFFIXES: ClassVar = (QueueSuffix.NONE, QueueSuffix.XACTONLY)

    network: UUID
    is_transactional: bool = False

    def __str__(self) -> str:
        suffix = QueueSuffix.XACTONLY if self.is_transactional else QueueSuffix.NONE
        return f"CONNECTOR={format_guid(self.network)}{suffix.tail}"


@attrs.frozen
class MulticastFormatName:
    """All queues that listen to an IP multicast address. [MS-MQMQ] 2.1.6.

    @ivar address: 224.0.0.0 to 239.255.255.255, dotted.
    @ivar port: 0 to 65535.
    """

    address: str
    port: int

    def __attrs_post_init__(self) -> None:
        read_multicast_address(format_name_span(f"{self.address}:{self.port}"))

    def __str__(self) -> str:
        return f"MULTICAST={self.address}:{self.port}"


FormatName = (
    DirectFormatName
    | PublicFormatName
    | PrivateFormatName
    | DistributionListFormatName
    | MachineFormatName
    | ConnectorFormatName
    | MulticastFormatName
)


def is_read_only(name: FormatName) -> bool:
    """Whether C{name} is a journal or dead-letter queue, to which no application sends."""
    match name:
        case DirectFormatName() | PublicFormatName() | PrivateFormatName() | MachineFormatName():
            return name.suffix in COMPUTER_SUFFIXES
    return False


def parse_format_name(text: str, lenient: bool = False) -> FormatName:
    """Parse one format name; the literal parts ignore case.

    @param lenient: allow any printable character in the names of computers, queues, subqueues and domains.
    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, with the fault and its position.
    """
    return _parse(format_name_span(text), lenient)


def parse_format_names(text: str, lenient: bool = False) -> tuple[FormatName, ...]:
    """Parse a multiple-element format name: format names separated by commas. [MS-MQMQ] 2.1.7.

    One name without a comma may be of any kind; among several, none may be a machine name
    or the name of a read-only queue.

    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, with the fault and its position.
    """
    parts = format_name_span(text).split(",")
    names = tuple(_parse(part, lenient) for part in parts)
    if len(names) > 1:
        for part, name in zip(parts, names, strict=True):
            if is_read_only(name):
                raise part.illegal("a read-only queue cannot be one of several")
    return names


def read_multicast_address(span: Span) -> tuple[str, int]:
    """An address from 224.0.0.0 to 239.255.255.255, a colon and a port, no number with leading zeros.

    @raise MQError: with the status of C{span}.
    """
    address, port = span.partition(":")
    octets = [int(octet) for octet in address.text.split(".")] if _OCTETS.fullmatch(address.text) else []
    if not octets or max(octets) > 255:
        raise address.illegal(f"{quoted(address.text)} is not a dotted IPv4 address")
    if not 224 <= octets[0] <= 239:
        raise address.illegal(f"{address.text} is not a multicast address (224.0.0.0 to 239.255.255.255)")
    if port is None:
        raise address.illegal("a colon and a port are missing", len(address))
    if _NUMBER.fullmatch(port.text) is None or int(port.text) > 0xFFFF:
        raise port.illegal(f"{quoted(port.text)} is not a port (0 to 65535, without leading zeros)")
    return address.text, int(port.text)


def _parse(span: Span, lenient: bool) -> FormatName:
    if not lenient and span.lower.startswith(_PREFIX):
        span = span.after(len(_PREFIX))
    kind, rest = span.partition("=")
    if rest is None:
        raise span.illegal("expected DIRECT=, PUBLIC=, PRIVATE=, DL=, MACHINE=, CONNECTOR= or MULTICAST=")
    match kind.lower:
        case "direct":
            return parse_direct(rest, lenient)
        case "public":
            guid, rest = _guid(rest)
            return PublicFormatName(guid, _suffix(rest, PublicFormatName.SUFFIXES))
        case "private":
            return _parse_private(rest)
        case "dl":
            return _parse_distribution_list(rest, lenient)
        case "machine":
            guid, rest = _guid(rest)
            return MachineFormatName(guid, _suffix(rest, MachineFormatName.SUFFIXES))
        case "connector":
            guid, rest = _guid(rest)
            suffix = _suffix(rest, ConnectorFormatName.SUFFIXES)
            return ConnectorFormatName(guid, suffix is QueueSuffix.XACTONLY)
        case "multicast":
            return MulticastFormatName(*read_multicast_address(rest))
    raise kind.illegal(f"{quoted(kind.text)} is not a kind of format name")


def _guid(span: Span) -> tuple[UUID, Span]:
    text = span.text[:36]
    if GUID_TEXT.fullmatch(text) is None:
        raise span.illegal("expected a GUID of 8-4-4-4-12 hex digits without braces")
    return UUID(text), span.after(36)


def _suffix(span: Span, allowed: tuple[QueueSuffix, ...]) -> QueueSuffix:
    for suffix in allowed:
        if span.lower == suffix.tail.lower():
            return suffix
    choices = " or ".join(suffix.tail or "the end" for suffix in allowed)
    raise span.illegal(f"expected {choices}")


def _check_suffix(name: object, suffix: QueueSuffix, allowed: tuple[QueueSuffix, ...]) -> None:
    if suffix not in allowed:
        choices = " or ".join(suffix.tail or "no suffix" for suffix in allowed)
        raise format_name_span(str(name)).illegal(f"expected {choices}")


def _parse_private(span: Span) -> PrivateFormatName:
    guid, rest = _guid(span)
    if not rest.text.startswith("\\"):
        raise rest.illegal("a backslash and a queue number are missing")
    number = _HEX.match(rest.text, 1)
    if number is None:
        raise rest.illegal("expected a queue number of 1 to 8 hex digits", 1)
    suffix = _suffix(rest.after(number.end()), PrivateFormatName.SUFFIXES)
    return PrivateFormatName(guid, int(number[0], 16), suffix)


def _parse_distribution_list(span: Span, lenient: bool) -> DistributionListFormatName:
    guid, rest = _guid(span)
    if not rest:
        return DistributionListFormatName(guid)
    if not rest.text.startswith("@"):
        raise rest.illegal("expected @ and a domain name, or the end")
    alphabet = DOMAIN_LENIENT if lenient else DOMAIN
    return DistributionListFormatName(guid, check(rest.after(1), "domain name", alphabet, DOMAIN_LENGTH))
