"""Uses the control API of a queue manager with the standard library alone.

Copy the class C{Api} into any program, in which msmq need not be installed::

    python3 plain_client.py msmq-data/control.sock
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
from typing import Any
from urllib.parse import quote, urlencode

QUEUE = r".\private$\plain"


class Refused(Exception):
    """The queue manager refused a request; C{error} is the MQ_ERROR name."""

    def __init__(self, error: str, detail: str) -> None:
        super().__init__(f"{error}: {detail}")
        self.error = error


class Api(http.client.HTTPConnection):
    """HTTP over the unix socket of a queue manager."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect to the socket; called by the base class whenever it has no connection."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def ask(
        self, method: str, path: str, body: bytes | None = None, /, **parameters: object
    ) -> tuple[http.client.HTTPMessage, bytes]:
        """Send one request; return the headers and the body of the response.

        @raise Refused: the queue manager refused.
        """
        self.request(method, f"/v1/{path}?{urlencode(parameters)}", body)
        answer = self.getresponse()
        content = answer.read()
        if answer.status >= 400:
            refusal = json.loads(content)
            raise Refused(refusal["error"], refusal["detail"])
        return answer.headers, content

    def ask_json(self, method: str, path: str, /, **content: object) -> Any:
        """Send one request, its body as JSON if there is one; return the JSON of the response."""
        return json.loads(self.ask(method, path, json.dumps(content).encode() if content else None)[1])


def main(path: str) -> None:
    """Create a queue, send, receive, and delete the queue."""
    api = Api(path)
    status = api.ask_json("GET", "status")
    print(f"{status['name']} is {status['state']}")

    api.ask_json("POST", "queues", path=QUEUE, label="Made by hand")
    _, answer = api.ask("POST", "messages", b"by hand", destination=QUEUE, label="greeting", priority=7)
    print(f"sent {json.loads(answer)['id']}")

    # The response has the body unchanged, and the properties as headers.
    headers, body = api.ask("GET", "messages", queue=QUEUE, timeout=5)
    print(f"received {headers['Msmq-Label']} of priority {headers['Msmq-Priority']}: {body!r}")
    try:
        api.ask("GET", "messages", queue=QUEUE, timeout=0)
    except Refused as refused:
        print(refused.error)
    api.ask_json("DELETE", f"queues/{quote(QUEUE, safe='')}")


if __name__ == "__main__":
    main(sys.argv[1])
