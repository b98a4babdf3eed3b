"""Refusals between two servers, as the operators of both see them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.integration.hostile.plain_sockets import ORDERS, ServerProcess, own_address

DENYING = '[security]\nunauthenticated = "deny"\npermit_insecure_nacks = true\n'
TELLING = "[security]\npermit_insecure_nacks = true\n"


class AccessRefusalTests(SynchronousTestCase):
    """ALPHA sends to BETA, and asks for negative acknowledgements."""

    def start(self, configuration: str) -> None:
        self.alpha = ServerProcess(self, own_address(self))
        self.beta = ServerProcess(self, own_address(self), configuration)
        self.alpha.client.create_queue(".\\private$\\admin", {})

    def refused(self, body: bytes) -> dict[str, object]:
        """Send a message, and give the event that BETA has of it; ALPHA has a negative acknowledgement."""
        [identifier] = self.alpha.send(
            f"DIRECT={self.beta.name()}",
            body,
            acknowledge=["nack-reach"],
            admin_queue=f"DIRECT={self.alpha.name('admin')}",
        )
        [reported] = self.alpha.receive(queue=".\\private$\\admin")
        self.assertEqual(
            (reported.properties["class"], reported.properties["correlation_id"]), (0x8004, identifier)
        )
        [event] = self.beta.client.explain(identifier)["events"]
        self.assertEqual((event["event"], event["class"]), ("refused", 0x8004))
        self.assertEqual(self.beta.client.queue(ORDERS)["messages"], 0)
        found: dict[str, object] = event
        return found

    def test_the_gate(self) -> None:
        """The event names the line of the configuration that would admit the message."""
        self.start(DENYING)
        self.assertEqual(
            self.refused(b"1")["reason"],
            f"NACK_ACCESS_DENIED from {self.alpha.address}: its sender is not authenticated;"
            ' unauthenticated = "loopback" under [security] in the configuration would accept it',
        )

    def test_the_descriptor(self) -> None:
        """The event names the entry that denies it; when that is gone messages are accepted."""
        self.start(TELLING)
        self.beta.client.change_acl(ORDERS, "deny", "anonymous", ["send"])
        self.assertEqual(
            self.refused(b"1")["reason"],
            f"NACK_ACCESS_DENIED from {self.alpha.address}: MQSEC_WRITE_MESSAGE: entry 1 of the DACL denies"
            " it to anonymous (S-1-5-7), by its descriptor",
        )
        self.beta.client.change_acl(ORDERS, "revoke", "anonymous")
        self.alpha.send(f"DIRECT={self.beta.name()}", b"2")
        self.assertEqual(self.beta.bodies(), [b"2"])
