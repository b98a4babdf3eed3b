"""Security descriptor or rule that protects a queue or a queue manager."""

from __future__ import annotations

from typing import Final

import attrs

from msmq.windows.security_descriptor import SecurityDescriptor

OWN: Final = "its descriptor"
"""Where a descriptor is stored that no rule replaces."""


@attrs.frozen
class Protection:
    """What protects an object.

    @ivar descriptor: C{None} if nothing does.
    @ivar source: where that is stored.
    @ivar is_rule: a rule of the operator replaces its descriptor.
    @ivar is_published: the directory lists rights to the queue as well.
    @ivar limit: a descriptor by which rights to messages have to be granted too; C{None} if there is none.
    """

    descriptor: SecurityDescriptor | None
    source: str = OWN
    is_rule: bool = False
    is_published: bool = False
    limit: SecurityDescriptor | None = None
