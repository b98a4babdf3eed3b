"""The limit on open file descriptors of the process."""

from __future__ import annotations

import resource
from typing import Final

from msmq.session.descriptor_shares import SMALL

MOST: Final = 1 << 20
"""Descriptors that a server uses at most; a larger limit stays as it is."""


def descriptor_limit() -> int:
    """How many descriptors this process may open; the usual limit where a sandbox forbids the question."""
    try:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return SMALL
    return MOST if soft == resource.RLIM_INFINITY else min(soft, MOST)


def raise_descriptor_limit() -> int:
    """Raise the soft limit to the hard one, which any process may do for itself.

    @return: how many descriptors this process may open.
    """
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # A sandbox may forbid it; the limits of connections follow from what there is.
        pass
    return descriptor_limit()
