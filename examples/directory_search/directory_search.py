"""Finds the directory servers of an enterprise by broadcast, as [MS-MQSD] says, and prints what they answer::

python directory_search.py 10.1.2.3

Without an address of this host all its networks are searched.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from msmq import MQError, find_directory_servers


async def report(address: str, **options: Any) -> str:
    """What the first servers to answer say, in a few lines.

    @param options: more arguments of C{find_directory_servers}.
    """
    try:
        found = await find_directory_servers(address=address, **options)
    except MQError as error:
        return f"nothing found: {error}"
    lines = [f"answered on the network of {found.address}"]
    lines += [f"directory server: {name}" for name in found.servers]
    lines += [f"connected network: {network}" for network in found.connected_networks]
    return "\n".join(lines)


async def main(reactor: Any, address: str = "") -> None:
    """Search once, which takes 15 seconds for a network that is silent."""
    print(await report(address, reactor=reactor))


if __name__ == "__main__":
    react(main, sys.argv[1:])
