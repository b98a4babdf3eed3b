"""Addresses of loopback for the servers of one run of the tests."""

from __future__ import annotations

import os


def own_address(number: int) -> str:
    """An address of loopback on which no other run of the tests listens at the same time.

    @param number: 1 to 254, another one for each server of a test.
    """
    run = os.getpid()
    return f"127.{64 + run // 254 % 64}.{run % 254 + 1}.{number}"
