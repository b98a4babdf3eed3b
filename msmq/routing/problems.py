"""Problems found in an enterprise's topology data, by kind and object."""

from __future__ import annotations

import enum
from typing import Final

import attrs

MAXIMUM_PROBLEMS: Final = 1000
"""Limit on the recorded problems of one enterprise; further ones are only counted."""


class ProblemKind(enum.Enum):
    """Kind of a problem; the value is its readable name."""

    COST = "cost out of range"
    UNKNOWN_SITE = "unknown site"
    SAME_SITE_TWICE = "link from a site to itself"
    NOT_A_ROUTING_SERVER = "not a routing server"
    CYCLE = "cycle of routing servers"
    DUPLICATE = "duplicate identifier"
    IDENTIFIER = "no identifier"
    NOTHING = "empty list"
    DIRECTORY = "unreadable object"

    UNKNOWN_QUEUE_MANAGER = "unknown queue manager"
    DUPLICATE_NAME = "duplicate name"
    PARALLEL_LINKS = "more than one link"
    NO_SITE = "queue manager in no site"
    NO_GATE = "site or link without a gate"
    NOT_A_GATE = "not a site gate"
    UNCONNECTED = "sites without a route between them"
    OTHER_SITE = "routing server in another site"
    NETWORKS = "no common network"
    BACKUP = "backup that cannot be used"
    SAME_ADDRESS = "address of another queue manager"

    @property
    def is_fault(self) -> bool:
        """Whether the data is malformed; otherwise it is valid but likely a mistake."""
        return self in _FAULTS


_FAULTS: Final = frozenset(
    {
        ProblemKind.COST,
        ProblemKind.UNKNOWN_SITE,
        ProblemKind.SAME_SITE_TWICE,
        ProblemKind.NOT_A_ROUTING_SERVER,
        ProblemKind.CYCLE,
        ProblemKind.DUPLICATE,
        ProblemKind.IDENTIFIER,
        ProblemKind.NOTHING,
        ProblemKind.DIRECTORY,
    }
)


@attrs.frozen
class EnterpriseProblem:
    """One problem of an enterprise.

    @ivar subject: the object, by name: C{link Berlin - Paris} for example.
    @ivar rule: what is wrong, and how it was treated.
    @ivar where: its source, a line of a file or an entry of a directory; empty if unknown.
    """

    kind: ProblemKind
    subject: str
    rule: str
    where: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the kind is a fault."""
        return self.kind.is_fault

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        return f"{where}{self.subject}: {self.rule}"


@attrs.define
class EnterpriseProblems:
    """Collected problems, at most L{MAXIMUM_PROBLEMS}; faults displace warnings.

    @ivar left_out: number of further problems.
    """

    found: list[EnterpriseProblem] = attrs.field(factory=list)
    left_out: int = 0
    _notices: int = attrs.field(init=False)

    @_notices.default
    def _count_notices(self) -> int:
        return sum(not problem.is_fault for problem in self.found)

    def add(self, kind: ProblemKind, subject: str, rule: str, where: str = "") -> None:
        """Record a problem."""
        problem = EnterpriseProblem(kind, subject, rule, where)
        if len(self.found) == MAXIMUM_PROBLEMS:
            self.left_out += 1
            if not problem.is_fault or not self._notices:
                return
            last = max(place for place, held in enumerate(self.found) if not held.is_fault)
            del self.found[last]
            self._notices -= 1
        self.found.append(problem)
        self._notices += not problem.is_fault
