"""[MS-MQOD] 3.9 Example 9: a customer (ALPHA), a gateway (EPSILON), a manufacturer without MSMQ (Rome)."""

from __future__ import annotations

from msmq.directory.memory import MemoryDirectory
from msmq.membership.objects import SiteObject
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from tests.estates.support import EstateTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS, ROME

CONNECTOR = f"CONNECTOR={ROME}"
FOREIGN = f"PRIVATE={IDENTIFIERS['ZETA']}\\00000007"


class HeterogeneousSystemsTests(EstateTestCase):
    """The connector program at EPSILON carries requests to the manufacturer, and its responses back."""

    def setUp(self) -> None:
        super().setUp()
        self.crash("ZETA")
        self.gateway = self.nodes["EPSILON"]
        self.queue(self.gateway, f"connector-{ROME}")
        self.responses = self.queue(self.alpha, "responses")

    def enterprise(self) -> MemoryDirectory:
        directory = super().enterprise()
        directory.write(SiteObject(identifier=ROME, foreign_site=True), ("foreign_site",))
        return directory

    def test_status_report(self) -> None:
        """A request is routed to the connector queue; the response goes to the queue that it names."""
        self.isolate("EPSILON")
        self.recoverable(
            self.alpha,
            FOREIGN,
            b"status report, please",
            response_queue=self.format_name(self.alpha, self.responses),
        )
        self.wait(30)
        self.rejoin("EPSILON")
        self.wait(120)
        reservation = self.run_to_end(self.gateway.service.reserve(CONNECTOR, timeout=0))
        [request] = reservation.messages
        self.assertEqual(bytes(request.view.body), b"status report, please")
        destination = request.view.destination_format_name()
        self.assertEqual(str(destination).casefold(), str(parse_format_name(FOREIGN)).casefold())
        response_queue = request.view.response_format_name()
        self.run_to_end(reservation.confirm())
        response = Message(
            body=b"all is well",
            delivery=Delivery.RECOVERABLE,
            correlation_id=request.view.identifier.to_bytes(),
        )
        self.run_to_end(self.gateway.service.send(str(response_queue), [response]))
        self.wait(10)
        [answer] = self.take(self.alpha, self.responses)
        self.assertEqual(bytes(answer.body), b"all is well")
        self.assertEqual(answer.correlation_id, request.view.identifier.to_bytes())
        self.assertEqual([self.waiting(node) for name, node in self.nodes.items() if name != "ZETA"], [0] * 5)
