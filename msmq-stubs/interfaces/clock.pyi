# Generated from msmq/interfaces/clock.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from zope.interface import Interface
from msmq.moment import Moment

class IClock(Interface, _Protocol):

    def now(self) -> Moment:
        ...
