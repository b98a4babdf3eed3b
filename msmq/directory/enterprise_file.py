"""Parser of the enterprise file, which describes an enterprise in TOML.

The file holds C{[enterprise]} and any number of C{[[site]]}, C{[[link]]}, C{[[queue_manager]]}, C{[[queue]]},
C{[[user]]} and C{[[group]]}; each is read into the object of [MS-MQDMPR] 3.1.1 that a directory would hold,
users and groups into accounts as well.
References are names or GUIDs.
All faults are reported together, each with its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID, uuid5

import attrs

from msmq.directory.accounts import DeclaredAccount, gather
from msmq.directory.enterprise_tables import GUID, REQUIRED, TABLES, read_public_keys
from msmq.directory.file_stamp import FileStamp
from msmq.directory.user_certificates import certificate_of
from msmq.errors import MsmqError
from msmq.interfaces.security.access import Account
from msmq.interfaces.topology import add_objects
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import (
    NO_KEYS,
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.quoting import quoted
from msmq.routing.backups import find_unusable_backups
from msmq.routing.problems import EnterpriseProblem
from msmq.routing.topology import Topology
from msmq.routing.topology_builder import TopologyBuilder
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.status import MQError
from msmq.toml.document import Document, DocumentError, decode_document, nearest, read_content
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import type_name
from msmq.wire.sid import parse_sid

_T = TypeVar("_T")

MOST_PROBLEMS: Final = 1000
"""Limit on the problems reported of one file; a file with different content would have very many."""


@attrs.frozen
class FileProblem:
    """A fault of a file, or something that is probably unintended.

    @ivar line: the line, counted from 1; C{None} for the whole file.
    @ivar key: the key concerned.
    @ivar problem: the problem.
    @ivar is_fault: whether it makes the file unusable; otherwise it is advice.
    """

    path: str
    line: int | None
    key: str
    problem: str
    is_fault: bool = True

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return ": ".join([where, *([self.key] if self.key else []), self.problem])


class EnterpriseFileError(MsmqError):
    """An enterprise file cannot be used.

    @ivar problems: all faults, in the order of their lines.
    @ivar certificate_stamps: as of L{EnterpriseFile}.
    """

    def __init__(
        self,
        problems: Iterable[FileProblem],
        certificate_stamps: Mapping[str, FileStamp | None] | None = None,
    ) -> None:
        self.problems = tuple(problems)
        self.certificate_stamps = {} if certificate_stamps is None else certificate_stamps
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


@attrs.frozen
class EnterpriseFile:
    """The content of an enterprise file.

    @ivar objects: in an order in which each follows the objects that it refers to.
    @ivar addresses: the addresses of queue managers by their identifiers, where the file has them.
    @ivar controls: the control endpoints of queue managers, likewise.
    @ivar topology: its sites, links and queue managers, for routing.
    @ivar accounts: its users and groups.
    @ivar advice: probable mistakes.
    @ivar content: the bytes of the file.
    @ivar certificates: the bytes of the certificate files that it names, by their names there.
    @ivar certificate_stamps: the stamps of these files before they were read; empty if they were given.
    """

    path: Path
    objects: tuple[DirectoryObject, ...]
    addresses: Mapping[UUID, str]
    topology: Topology
    accounts: tuple[Account, ...] = ()
    advice: tuple[FileProblem, ...] = ()
    controls: Mapping[UUID, str] = attrs.field(factory=dict)
    content: bytes = attrs.field(default=b"", repr=False)
    certificates: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)
    certificate_stamps: Mapping[str, FileStamp | None] = attrs.field(factory=dict, repr=False)


def load_enterprise(path: Path) -> EnterpriseFile:
    """Read and validate a file.

    Ten thousand sites take some seconds, so it is called in a worker thread.

    @raise EnterpriseFileError: it is invalid; has all faults.
    """
    return parse_enterprise(path, read_enterprise(path))


def read_enterprise(path: Path) -> bytes:
    """Read the bytes of a file.

    @raise EnterpriseFileError: there is no such file, or it cannot be read.
    """
    try:
        return read_content(path)
    except DocumentError as error:
        raise EnterpriseFileError([FileProblem(str(path), None, "", error.problem)]) from error


def parse_enterprise(
    path: Path, content: bytes, certificates: Mapping[str, bytes] | None = None
) -> EnterpriseFile:
    """Parse and validate the bytes of a file; takes as long as L{load_enterprise}.

    @param path: the path for errors; certificate files are relative to its directory.
    @param certificates: the bytes of those files by their names, where they are not to be read.
    @raise EnterpriseFileError: it is invalid; has all faults.
    """
    reading = _read(path, content, certificates)
    if any(problem.is_fault for problem in reading.problems):
        faults = [problem for problem in reading.sorted_problems() if problem.is_fault]
        raise EnterpriseFileError(faults, reading.certificate_stamps)
    return EnterpriseFile(
        path,
        tuple(reading.objects),
        reading.addresses,
        reading.topology,
        reading.accounts,
        tuple(reading.sorted_problems()),
        controls=reading.controls,
        content=content,
        certificates=reading.certificates,
        certificate_stamps=reading.certificate_stamps,
    )


def check_enterprise(path: Path) -> list[FileProblem]:
    """All faults of a file, and advice about what is probably unintended, in the order of lines."""
    try:
        content = read_enterprise(path)
    except EnterpriseFileError as error:
        return list(error.problems)
    reading = _read(path, content)
    if not any(problem.is_fault for problem in reading.problems):
        reading.add_problems(find_unusable_backups(reading.topology))
    return reading.sorted_problems()


def _read(path: Path, content: bytes, certificates: Mapping[str, bytes] | None = None) -> _Reading:
    reading = _Reading(path, kept=certificates)
    try:
        reading.take(decode_document(content))
    except DocumentError as error:
        reading.refuse((), error.problem, error.line)
    return reading


@attrs.define
class _Row:
    """One table of the file."""

    path: KeyPath
    values: dict[str, Any]


@attrs.define
class _Reading:
    """One file while it is parsed."""

    path: Path
    problems: list[FileProblem] = attrs.field(factory=list)
    objects: list[DirectoryObject] = attrs.field(factory=list)
    addresses: dict[UUID, str] = attrs.field(factory=dict)
    controls: dict[UUID, str] = attrs.field(factory=dict)
    topology: Topology = attrs.field(factory=Topology)
    accounts: tuple[Account, ...] = ()
    certificates: dict[str, bytes] = attrs.field(factory=dict)
    certificate_stamps: dict[str, FileStamp | None] = attrs.field(factory=dict)
    _kept: Mapping[str, bytes] | None = None
    _lines: Mapping[KeyPath, int] = attrs.field(factory=dict)
    _sites: dict[str, UUID] = attrs.field(factory=dict)
    _machines: dict[str, UUID] = attrs.field(factory=dict)
    _identifiers: dict[UUID, str] = attrs.field(factory=dict)
    _paths: set[str] = attrs.field(factory=set)
    _refusals: int = 0

    def take(self, document: Document) -> None:
        self._lines = document.lines
        for table in document.values:
            if table not in TABLES:
                self.refuse((table,), f"is not a table of an enterprise{nearest(table, TABLES)}")
        enterprise = self._one(document.values.get("enterprise"))
        rows = {
            table: list(self._rows(table, document.values.get(table, [])))
            for table in TABLES
            if table != "enterprise"
        }
        self._name(rows["site"], self._sites, "site")
        self._name(rows["queue_manager"], self._machines, "queue manager")
        if enterprise is not None:
            self._add(enterprise, self._enterprise)
        for row in rows["site"]:
            self._add(row, self._site)
        for row in rows["link"]:
            self._add(row, self._link)
        for row in rows["queue_manager"]:
            self._add(row, self._queue_manager)
        for row in rows["queue"]:
            self._add(row, self._queue)
        for row in rows["user"]:
            self._add(row, self._user)
        written = (DeclaredAccount(row.path, row.values) for row in (*rows["user"], *rows["group"]))
        self.accounts = gather(written, self.refuse)
        self._check_topology(rows)

    def refuse(self, path: KeyPath, problem: str, line: int | None = None, *, is_fault: bool = True) -> None:
        self._refusals += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(
                FileProblem(str(self.path), line or self._line(path), _shown(path), problem, is_fault)
            )

    def sorted_problems(self) -> list[FileProblem]:
        return sorted(self.problems, key=lambda problem: problem.line or 0)

    # Tables

    def _one(self, table: object) -> _Row | None:
        if table is None:
            self.refuse((), "has no table [enterprise]")
            return None
        if not isinstance(table, dict):
            self.refuse(("enterprise",), f"must be a table, not {type_name(table)}")
            return None
        return self._row(("enterprise",), table)

    def _rows(self, table: str, entries: object) -> Iterable[_Row]:
        if not isinstance(entries, list):
            self.refuse((table,), f"must be in double brackets, [[{table}]], since there may be several")
            return
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict):
                self.refuse((table, index), f"must be a table, not {type_name(entry)}")
                continue
            row = self._row((table, index), entry)
            if row is not None:
                yield row

    def _row(self, path: KeyPath, table: Mapping[str, object]) -> _Row | None:
        name = str(path[0])
        known = TABLES[name]
        values: dict[str, Any] = {}
        before = self._refusals
        for key, value in table.items():
            if key not in known:
                self.refuse((*path, key), f"is not a key of {name}{nearest(key, known)}")
                continue
            try:
                values[key] = known[key].read(value)
            except ValueError as error:
                self.refuse((*path, key), str(error))
        for key in REQUIRED[name]:
            if key not in table:
                self.refuse(path, f"needs {quoted(key)}")
        return _Row(path, values) if self._refusals == before else None

    def _name(self, rows: Iterable[_Row], names: dict[str, UUID], what: str) -> None:
        """Index these by the names that references may use."""
        for row in rows:
            identifier = row.values["id"]
            name = row.values["name"].casefold()
            if name in names:
                self.refuse((*row.path, "name"), f"is the name of another {what} too")
                continue
            names[name] = identifier

    def _add(self, row: _Row, make: Callable[[_Row], DirectoryObject | None]) -> None:
        identifier = row.values.get("id")
        if identifier is not None:
            other = self._identifiers.setdefault(identifier, _shown(row.path))
            if other != _shown(row.path):
                self.refuse((*row.path, "id"), f"is the GUID of {other} too")
                return
        try:
            made = make(row)
        except MQError as error:
            self.refuse(row.path, error.detail or str(error))
            return
        if made is not None:
            self.objects.append(made)

    # Objects

    def _enterprise(self, row: _Row) -> EnterpriseObject:
        values = {key: value for key, value in row.values.items() if key != "id"}
        values.setdefault("name", "MsmqServices")
        return EnterpriseObject(
            identifier=row.values["id"], non_ldap_capable_queue_manager_notification=False, **values
        )

    def _site(self, row: _Row) -> SiteObject:
        return SiteObject(
            identifier=row.values["id"],
            name=row.values["name"],
            foreign_site=row.values.get("foreign", False),
            full_path=self._where(row.path),
        )

    def _link(self, row: _Row) -> RoutingLinkObject | None:
        ends = self._find(row, "sites", self._sites, "site")
        gates = self._find(row, "gates", self._machines, "queue manager")
        if len(row.values["sites"]) != 2:
            self.refuse((*row.path, "sites"), f"must name two sites, not {len(row.values['sites'])}")
            return None
        if len(ends) != 2:
            return None
        cost = row.values["cost"]
        if not 1 <= cost <= 999_999:
            self.refuse((*row.path, "cost"), f"must be from 1 to 999999, not {cost}")
            return None
        return RoutingLinkObject(
            identifier=uuid5(ends[0], f"{ends[1]} {row.path[1]}"),
            site1_identifier=ends[0],
            site2_identifier=ends[1],
            actual_cost=cost,
            site_gate_identifier_list=gates,
            description=row.values.get("description", ""),
            full_path=self._where(row.path),
        )

    def _queue_manager(self, row: _Row) -> QueueManagerObject:
        values = row.values
        identifier: UUID = values["id"]
        if "address" in values:
            self.addresses[identifier] = values["address"]
        if "control" in values:
            self.controls[identifier] = values["control"]
        return QueueManagerObject(
            identifier=identifier,
            computer_name=values["name"],
            qualified_computer_name=values.get("dns_name", values["name"]),
            site_identifier_list=self._find(row, "sites", self._sites, "site"),
            routing_server=values.get("routing_server", False),
            in_routing_server_identifier_list=self._find(
                row, "in_routing_servers", self._machines, "queue manager"
            ),
            out_routing_server_identifier_list=self._find(
                row, "out_routing_servers", self._machines, "queue manager"
            ),
            connected_network_identifier_list=self._find(row, "connected_networks", {}, "connected network"),
            public_encryption_key_list=(
                read_public_keys(values["encryption_keys"]) if "encryption_keys" in values else NO_KEYS
            ),
            full_path=self._where(row.path),
        )

    def _queue(self, row: _Row) -> QueueObject | None:
        path = parse_path_name(row.values["path"])
        key = str(path).casefold()
        if key in self._paths:
            self.refuse((*row.path, "path"), "is the path of another queue too")
            return None
        self._paths.add(key)
        if path.computer.casefold() not in self._machines:
            self.refuse(
                (*row.path, "path"), f"is on {path.computer}, which is not a queue manager of this file"
            )
            return None
        return QueueObject(
            identifier=row.values["id"],
            pathname=str(path),
            full_path=self._where(row.path),
        )

    def _user(self, row: _Row) -> UserObject:
        certificates = []
        sid = parse_sid(row.values["sid"])
        for index, name in enumerate(row.values.get("certificates", ())):
            try:
                data = certificate_of(self._certificate_file(name))
            except (OSError, ValueError, KeyError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self.refuse((*row.path, "certificates", index), f"{quoted(name)} cannot be read: {reason}")
                continue
            certificates.append(MqUserSignCert.of(data, uuid5(UUID(int=0), data.hex())))
        return UserObject(
            identifier=uuid5(UUID(int=0), row.values["sid"]),
            security_identifier=sid,
            certificate_digest_list=tuple(each.digest for each in certificates),
            certificates=MqUserSignCerts(tuple(certificates)),
            full_path=self._where(row.path),
        )

    def _certificate_file(self, name: str) -> bytes:
        """The bytes of a certificate file, which is read once, so that they are those of its stamp."""
        if name not in self.certificates:
            if self._kept is not None:
                self.certificates[name] = self._kept[name]
            else:
                path = self.path.parent / name
                self.certificate_stamps[name] = FileStamp.of(path)
                self.certificates[name] = path.read_bytes()
        return self.certificates[name]

    # References

    def _find(self, row: _Row, key: str, names: Mapping[str, UUID], what: str) -> tuple[UUID, ...]:
        """The identifiers for an array of references; a GUID may refer to an object outside the file."""
        found: list[UUID] = []
        for index, text in enumerate(row.values.get(key, ())):
            identifier = names.get(text.casefold())
            if identifier is None:
                try:
                    identifier = GUID.read(text)
                except ValueError:
                    known = nearest(text.casefold(), names)
                    problem = f"{quoted(text)} is not a {what} of this file{known}"
                    self.refuse((*row.path, key, index), problem)
                    continue
            if identifier in found:
                self.refuse((*row.path, key, index), f"names {quoted(text)} twice")
                continue
            found.append(identifier)
        return tuple(found)

    def _check_topology(self, rows: Mapping[str, Iterable[_Row]]) -> None:
        """Validate the topology as a whole."""
        builder = TopologyBuilder()
        add_objects(builder, self.objects, self.addresses)
        built = builder.build()
        self.topology = built.topology
        self.add_problems(built.problems)

    def add_problems(self, problems: Iterable[EnterpriseProblem]) -> None:
        """Report the problems of the topology, with their lines."""
        for problem in problems:
            line = problem.where.rpartition(":")[2]
            self.refuse(
                (),
                f"{problem.subject}: {problem.rule}",
                int(line) if line.isdigit() else None,
                is_fault=problem.is_fault,
            )

    def _where(self, path: KeyPath) -> str:
        return f"{self.path.name}:{self._line(path)}"

    def _line(self, path: KeyPath) -> int | None:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)


def _shown(path: KeyPath) -> str:
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text
