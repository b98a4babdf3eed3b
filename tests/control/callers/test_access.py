"""Access rights over the control API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.well_known_sids import ADMINISTRATORS
from tests.control.support import ORDERS, ControlTestCase, resource

ACL = resource("queues", ORDERS, "acl")
WHY = resource("queues", ORDERS, "why")


class AccessTests(ControlTestCase):
    """The resources C{acl} and C{why} of a queue."""

    def options(self) -> Mapping[str, Any]:
        return {"access": AccessPolicy(MemoryAccessControl(), ADMINISTRATORS)}

    def test_change(self) -> None:
        """The change in the body is made, and the answer shows the list."""
        for wanted, sddl in (
            (
                {"action": "deny", "principal": "anonymous", "rights": ["send"]},
                "(D;;0x4;;;AN)(A;;0xf003f;;;WD)",
            ),
            (
                {"action": "allow", "principal": "anonymous", "rights": ["send"]},
                "(A;;0xf003f;;;WD)(A;;0x4;;;AN)",
            ),
            ({"action": "revoke", "principal": "anonymous"}, "(A;;0xf003f;;;WD)"),
        ):
            answer = self.post(ACL, wanted)
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json["sddl"], "O:ANG:AND:" + sddl)
            self.assertEqual(self.call("GET", ACL).json, answer.json)

    def test_why(self) -> None:
        """A principal and a right are asked about; both have to be there."""
        answer = self.call("GET", f"{WHY}?principal=anonymous&right=send")
        self.assertEqual((answer.status, answer.json["granted"]), (200, True))
        for query in ("principal=anonymous", "right=send", "principal=anonymous&right=send&more=1"):
            self.assertEqual(self.call("GET", f"{WHY}?{query}").status, 400)

    def test_bodies_that_say_something_else(self) -> None:
        """Are refused, with the reason, and change nothing."""
        before = self.call("GET", ACL).body
        for wanted, words in (
            ({}, "action is text, not None"),
            (
                {"action": "grant", "principal": "everyone"},
                "action is allow, deny, revoke or replace, not 'grant'",
            ),
            ({"action": "deny", "principal": 7}, "principal is text, not 7"),
            ({"action": "deny", "principal": "everyone", "rights": "send"}, "rights is a list of texts"),
            ({"action": "deny", "principal": "everyone", "rights": [4]}, "rights is text, not 4"),
            ({"action": "deny", "principal": "everyone", "right": "send"}, "no parameter 'right' here"),
        ):
            answer = self.post(ACL, wanted)
            self.assertEqual((answer.status, answer.json["error"]), (400, "MQ_ERROR_INVALID_PARAMETER"))
            self.assertIn(words, answer.json["detail"])
        self.assertEqual(self.call("GET", ACL).body, before)
