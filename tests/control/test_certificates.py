"""Certificates over the control API, and messages that are signed with them."""

from __future__ import annotations

import base64
from typing import Any

from msmq.control.server.factory import make_site
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.manager.securing.message_security import SecurityProviders
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.contracts.signing import OTHER_SID, SID
from msmq.testing.network import Network
from msmq.testing.signing import MemoryCertificateStore, MemorySigning
from tests.builders import ALPHA
from tests.control.support import ORDERS, ControlTestCase
from tests.nodes.support import Node

CERTIFICATES = "/v1/certificates"


class CertificateResourceTests(ControlTestCase):
    """Answers and refusals of the resources of certificates."""

    def setUp(self) -> None:
        super().setUp()
        self.signing = MemorySigning()
        security = SecurityProviders(signing=self.signing, certificates=MemoryCertificateStore(), sender=SID)
        network = Network(self.clock.reactor)
        self.node = Node(
            network,
            self.clock,
            "ALPHA",
            ALPHA,
            SessionSettings(),
            MemoryMessageStore(durable=True),
            options={"providers": security},
        )
        self.node.start()
        self.service = self.node.service
        self.addCleanup(self.service.stopService)
        self.site = make_site(
            self.service,
            configuration=NoServerConfiguration(),
            members=EstateMembers(("ALPHA",), {}, None),
            limits=ControlLimits(),
            clock=self.clock.reactor,
        )
        self.run_to_end(self.service.create_queue(ORDERS, authenticate=True))

    def created(self, **wanted: Any) -> dict[str, Any]:
        answer = self.post(CERTIFICATES, wanted)
        self.assertEqual(answer.status, 201, answer.json)
        made: dict[str, Any] = answer.json
        return made

    def test_life(self) -> None:
        """Created, listed, found by its first digits, and removed; its key is never shown."""
        made = self.created(name="Alice", days=10)
        self.assertEqual((made["subject"], made["sid"]), ("CN=Alice", "S-1-5-21-1-2-3-1001"))
        self.assertEqual(made["not_before"], "2023-11-13T22:13:20+00:00")
        [kept] = self.service._parts.security.messages.certificates.kept  # type: ignore[union-attr]
        self.assertEqual(base64.b64decode(made["certificate_base64"]), kept.credentials.certificate)
        self.assertEqual(self.call("GET", CERTIFICATES).json, [made])
        for name in ("default", made["fingerprint"][:8], made["fingerprint"].upper()):
            answer = self.call("GET", f"{CERTIFICATES}/{name}")
            self.assertEqual(answer.json, made)
            self.assertNotIn("private key", str(answer.json))
        self.assertEqual(self.call("DELETE", f"{CERTIFICATES}/{made['fingerprint']}").json, made)
        self.assertEqual(self.call("GET", CERTIFICATES).json, [])

    def test_import(self) -> None:
        """A file is taken over as it is, in base64."""
        made = self.signing.create("Bob", 0, 1e10)
        assert made.private_key is not None
        file = base64.b64encode(made.certificate + b"\n" + made.private_key).decode()
        taken = self.created(file_base64=file, sid="S-1-5-21-1-2-3-1002", password="unused")
        self.assertEqual((taken["subject"], taken["internal"]), ("CN=Bob", False))
        [kept] = self.service._parts.security.messages.certificates.kept  # type: ignore[union-attr]
        self.assertEqual(kept.security_identifier, OTHER_SID)

    def test_refused(self) -> None:
        """Each by the name of its error."""
        for wanted, error in (
            ({"days": "ten"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"colour": "red"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"file_base64": "*"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"file_base64": "", "days": 1}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"file_base64": ""}, "MQ_ERROR_INVALID_CERTIFICATE"),
            ({"sid": "nobody"}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ):
            answer = self.post(CERTIFICATES, wanted)
            self.assertEqual(answer.json["error"], error, wanted)
        for method, name in (("GET", "default"), ("GET", "12345678"), ("DELETE", "12345678")):
            answer = self.call(method, f"{CERTIFICATES}/{name}")
            self.assertEqual(answer.json["error"], "MQ_ERROR_CERTIFICATE_NOT_PROVIDED")
        self.created()
        answer = self.post(f"{CERTIFICATES}/default/publish", {})
        self.assertEqual(answer.json["error"], "MQ_ERROR_NO_DS")

    def test_signed_sends(self) -> None:
        """A message is signed with what its properties name; wrong names are refused."""
        made = self.created()
        for parameters in (
            {"sign": "2.0"},
            {"sign": "3.0", "hash": "sha256", "certificate": made["fingerprint"][:10]},
        ):
            answer = self.call("POST", "/v1/messages", b"body", destination=ORDERS, **parameters)
            self.assertEqual(answer.status, 201, answer.json)
        found = self.seen()
        self.assertEqual([message.view.hash_algorithm for message in found], [0x800E, 0x800C])
        self.assertEqual([message.view.authentication_level for message in found], [3, 5])
        for parameters, error in (
            ({"sign": "4.0"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"sign": "2.0", "hash": "crc"}, "MQ_ERROR_INVALID_PARAMETER"),
            ({"sign": "2.0", "hash": "md5"}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ):
            answer = self.call("POST", "/v1/messages", b"body", destination=ORDERS, **parameters)
            self.assertEqual(answer.json["error"], error, parameters)
        answer = self.call("POST", "/v1/messages", b"body", destination=ORDERS)
        self.assertEqual(answer.json["error"], "MQ_ERROR_CERTIFICATE_NOT_PROVIDED")
