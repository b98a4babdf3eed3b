"""[MS-MQDMPR] 3.1.7.1: an operation has the same result over every API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msmq.control.server.messages.json_records import json_record
from msmq.queues.arriving.message import Delivery, Message
from tests.control.support import ControlTestCase, resource

PROPERTIES: dict[str, Any] = {"label": "L", "quota": 500, "journal": True}
OWN = ("path", "format_name", "identifier")


class TwoWaysTests(ControlTestCase):
    """The Python API, and the control API."""

    def by_calls(self, name: str) -> list[Any]:
        """The result of the same operations by separate calls on one queue."""
        service, path = self.node.service, f".\\private$\\{name}"
        seen: list[Any] = [json_record(self.run_to_end(service.create_queue(path, **PROPERTIES)))]
        seen.append(json_record(self.run_to_end(service.set_queue(path, {"label": "M"}))))
        sent = [
            self.run_to_end(service.send(path, [Message(body=body, delivery=Delivery.RECOVERABLE)]))[0]
            for body in (b"1", b"2", b"3")
        ]
        self.run_to_end(service.move(sent[1], f"{path};aside"))
        seen += [self.bodies(path), self.bodies(f"{path};aside")]
        seen.append(bytes(self.run_to_end(service.receive(path, timeout=0)).body))
        seen.append(self.bodies(f"{path};journal"))
        seen.append(self.run_to_end(service.purge_queue(path)))
        seen.append(json_record(service.inspection.queue(path)))
        self.run_to_end(service.delete_queue(path))
        seen.append(self.status(lambda: self.run_to_end(service.purge_queue(path))))
        return seen

    def by_requests(self, name: str) -> list[Any]:
        """The same by requests."""
        path = f".\\private$\\{name}"
        seen: list[Any] = [self.post("/v1/queues", {"path": path, **PROPERTIES}).json]
        seen.append(self.call("PATCH", resource("queues", path), b'{"label": "M"}').json)
        sent = [
            self.call("POST", "/v1/messages", body, destination=path, delivery="recoverable").json["id"]
            for body in (b"1", b"2", b"3")
        ]
        self.post(resource("messages", sent[1], "move"), {"queue": f"{path};aside"})
        seen += [self.bodies(path), self.bodies(f"{path};aside")]
        seen.append(self.call("GET", "/v1/messages", queue=path, timeout=0).body)
        seen.append(self.bodies(f"{path};journal"))
        seen.append(self.call("POST", resource("queues", path, "purge")).json["purged"])
        seen.append(self.call("GET", resource("queues", path)).json)
        self.call("DELETE", resource("queues", path))
        seen.append(self.call("POST", resource("queues", path, "purge")).json["error"])
        return seen

    def status(self, do: Callable[[], object]) -> str:
        """Why something is refused."""
        with self.assertRaises(Exception) as refusal:
            do()
        return next(name for name in str(refusal.exception).split() if name.startswith("MQ_ERROR")).rstrip(
            ":"
        )

    def test_the_same(self) -> None:
        """MQDMPR-3.1.7.1-01: queues are made, changed, filled, read, purged and deleted alike."""
        first, second = self.by_calls("first"), self.by_requests("second")
        for one, other in zip(first, second, strict=True):
            if isinstance(one, dict):
                one = {name: value for name, value in one.items() if name not in OWN}
                other = {name: value for name, value in other.items() if name not in OWN}
                self.assertEqual(set(one) - set(other), set())
                other = {name: other[name] for name in one}
            self.assertEqual(one, other)
