"""Security descriptor or rule that protects a queue or a queue manager."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.windows.security_descriptor import SecurityDescriptor

OWN: Final = "its descriptor"
"""Source of a descriptor that no rule replaces."""


@attrs.frozen
class Protection:
    """The protection of an object.

    @ivar descriptor: C{None} without protection.
    @ivar source: where the descriptor is stored.
    @ivar is_rule: a rule of the operator replaces its descriptor.
    @ivar is_published: the directory lists rights to the queue as well.
    @ivar limit: a second descriptor that has to grant rights to messages too; C{None} without one.
    """

    descriptor: SecurityDescriptor | None
    source: str = OWN
    is_rule: bool = False
    is_published: bool = False
    limit: SecurityDescriptor | None = None
