"""The reactor of programs that name none."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime


def running_reactor() -> IReactorTime:
    """Twisted's global reactor; importing it installs the default one, if the program has installed none."""
    from twisted.internet import reactor

    return IReactorTime(reactor)
