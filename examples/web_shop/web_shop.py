"""A web application with a whole queue manager inside: a form sends an order, a page shows how many wait::

python web_shop.py msmq-data 127.0.0.2 8080
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.task import react
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from msmq import Delivery, Message, MQError, Overrides, QueueManagerService, Server, load

ORDERS = r".\private$\orders"
LONGEST = 1000

PAGE = """<!doctype html><html lang="en"><title>Shop</title><h1>Shop</h1>
<p>%d orders wait.</p>
<form method="post"><label>Order <input name="order" maxlength="1000" required></label>
<button>Send</button></form>
</html>"""


class Shop(Resource):
    """The only page.

    @param manager: the queue manager of this process.
    """

    isLeaf = True

    def __init__(self, manager: QueueManagerService) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._manager = manager

    def render_GET(self, request: Request) -> bytes:
        """Show how many orders wait."""
        return (PAGE % self._manager.inspection.queue(ORDERS).messages).encode()

    def render_POST(self, request: Request) -> int:
        """Send an order; the answer comes when it is stored."""
        text = request.args.get(b"order", [b""])[0].decode("utf-8", "replace")[:LONGEST]
        sending = Deferred.fromCoroutine(self._send(text))
        request.notifyFinish().addErrback(lambda _: sending.cancel())
        sending.addCallbacks(self._sent, self._refused, callbackArgs=(request,), errbackArgs=(request,))
        return NOT_DONE_YET

    async def _send(self, text: str) -> None:
        message = Message(body=text.encode(), label=text[:100], delivery=Delivery.RECOVERABLE)
        await self._manager.send(ORDERS, [message])

    def _sent(self, _: None, request: Request) -> None:
        request.redirect(b"/")
        request.finish()

    def _refused(self, failure: Failure, request: Request) -> None:
        failure.trap(MQError)
        request.setResponseCode(503)
        request.write(f"<p>The order is not accepted: {escape(str(failure.value))}</p>".encode())
        request.finish()


async def make_shop(server: Server) -> Site:
    """The site of a server that has started."""
    manager = server.manager
    if ORDERS not in {queue.path for queue in manager.inspection.queues()}:
        await manager.create_queue(ORDERS, label="Orders")
    return Site(Shop(manager))


async def main(reactor: Any, data: str, address: str, port: str = "8080") -> None:
    """Serve pages and messages until the process is stopped."""
    server = Server(load(None, Overrides(name="SHOP", data=data, address=address)), reactor)
    server.startService()
    await server.started
    reactor.addSystemEventTrigger("before", "shutdown", server.stopService)
    await TCP4ServerEndpoint(reactor, int(port), interface=address).listen(await make_shop(server))
    print(f"http://{address}:{port}/", flush=True)
    await Deferred()


if __name__ == "__main__":
    react(main, sys.argv[1:])
