"""[MS-MQBR] 1.4 which messages are routed at all, seen from the queue managers that could have had them."""

from __future__ import annotations

from tests.nodes.routes.test_routing import EnterpriseTestCase
from tests.nodes.support import ADDRESSES

GATES = ("BETA", "DELTA", "EPSILON")


class InvocationTests(EnterpriseTestCase):
    """ALPHA sends to ZETA, two sites away."""

    def test_names(self) -> None:
        """MQBR-1.4-01: a private and a public name are routed by the gates; a direct name leads straight to
        its computer.
        """
        path = self.queue(self.zeta)
        self.run_to_end(self.zeta.service.create_queue("ZETA\\public"))
        public: str = self.zeta.service.inspection.queue("ZETA\\public").format_name
        direct = f"DIRECT=TCP:{ADDRESSES['ZETA']}\\private$\\orders"
        expected = 0
        for name, queue, is_routed in (
            (direct, path, False),
            (self.private_name(self.zeta, path), path, True),
            (public, "ZETA\\public", True),
        ):
            self.send(self.alpha, name, b"message")
            self.clock.advance(5)
            [view] = self.take(self.zeta, queue)
            expected += is_routed
            self.assertEqual([self.passed(gate) for gate in GATES], [expected] * 3, name)
            self.assertEqual(view.hop_count, 3 if is_routed else 0)
