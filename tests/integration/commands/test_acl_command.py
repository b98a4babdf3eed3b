"""C{msmq acl}, against a running server."""

from __future__ import annotations

import os

from tests.integration import test_control_socket as command
from tests.integration.test_control_socket import ORDERS

ANYBODY = "everyone (S-1-1-0)"


class AclCommandTests(command.CommandTestCase):
    """Access rights are shown, changed and explained."""

    async def test_show(self) -> None:
        """A new queue is open to everyone, as the documents have it for accounts outside a domain."""
        ended = await self.msmq("acl", "show", ORDERS, "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [found] = ended.objects
        self.assertEqual(found["queue"], ORDERS)
        self.assertEqual((found["owner"], found["source"]), ("anonymous (S-1-5-7)", "its descriptor"))
        self.assertIs(found["everything"], False)
        self.assertEqual(
            found["entries"],
            [
                {
                    "action": "allow",
                    "principal": "S-1-1-0",
                    "name": ANYBODY,
                    "rights": ["all"],
                    "mask": 0xF003F,
                    "inherited": False,
                    "inherit_only": False,
                }
            ],
        )
        self.assertEqual(found["sddl"], "O:ANG:AND:(A;;0xf003f;;;WD)")
        ended = await self.msmq("acl", "show", ORDERS)
        self.assertEqual(
            ended.output.decode().splitlines(),
            [
                f"{ORDERS}, owner anonymous (S-1-5-7), by its descriptor",
                "action  principal           rights  inherited",
                f"allow   {ANYBODY}  all     no",
            ],
        )

    async def test_change(self) -> None:
        """Allowed and denied rights take effect at once, and persist; the output is that of C{show}."""
        ended = await self.msmq("acl", "deny", "anonymous", ORDERS, "send", "receive", "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [found] = ended.objects
        self.assertEqual(found["sddl"], "O:ANG:AND:(D;;0x7;;;AN)(A;;0xf003f;;;WD)")
        ended = await self.msmq("acl", "allow", "S-1-5-21-1-2-3-1001", ORDERS, "send", "--json")
        self.assertEqual(
            [(entry["action"], entry["rights"]) for entry in ended.objects[0]["entries"]],
            [("deny", ["receive", "send"]), ("allow", ["all"]), ("allow", ["send"])],
        )
        ended = await self.msmq("acl", "revoke", "everyone", ORDERS, "--json")
        self.assertEqual(ended.objects[0]["sddl"], "O:ANG:AND:(D;;0x7;;;AN)(A;;0x4;;;S-1-5-21-1-2-3-1001)")
        again = await self.msmq("acl", "show", ORDERS, "--json")
        self.assertEqual(again.output, ended.output)

    async def test_why(self) -> None:
        """Whether an account has a right, and the entry that says so."""
        await self.msmq("acl", "deny", "anonymous", ORDERS, "send")
        for principal, right, granted, reason in (
            (
                "anonymous",
                "send",
                False,
                "MQSEC_WRITE_MESSAGE: entry 1 of the DACL denies it to anonymous (S-1-5-7)",
            ),
            (
                "S-1-5-21-1-2-3-1001",
                "MQSEC_WRITE_MESSAGE",
                True,
                f"MQSEC_WRITE_MESSAGE: entry 2 of the DACL allows it to {ANYBODY}",
            ),
        ):
            ended = await self.msmq("acl", "why", principal, ORDERS, right, "--json")
            self.assertEqual((ended.status, ended.errors), (0, ""))
            [found] = ended.objects
            self.assertEqual((found["granted"], found["reason"]), (granted, reason))
            self.assertEqual(found["right"], "MQSEC_WRITE_MESSAGE")
        ended = await self.msmq("acl", "why", "anonymous", ORDERS, "send", "--json")
        [found] = ended.objects
        self.assertEqual((found["groups"], found["unauthenticated"]), ([ANYBODY], "loopback"))

    async def test_the_queue_manager(self) -> None:
        """It is named with a dot: everyone may see it, and the user of the server has all rights."""
        ended = await self.msmq("acl", "show", ".", "--json")
        owner = f"S-1-22-1-{os.getuid()}"
        self.assertEqual(
            ended.objects[0]["sddl"], f"O:{owner}G:{owner}D:(A;;0x20020;;;WD)(A;;0xf00f7;;;{owner})"
        )
        ended = await self.msmq("acl", "allow", "users", ".", "create-queue", "--json")
        self.assertEqual(ended.objects[0]["entries"][-1]["rights"], ["create-queue"])
        ended = await self.msmq("acl", "why", "everyone", ".", "create-queue", "--json")
        self.assertIs(ended.objects[0]["granted"], False)

    async def test_a_queue_with_a_descriptor(self) -> None:
        """A queue can be made with one; what it leaves out is as by default."""
        path = ".\\private$\\closed"
        ended = await self.msmq("queue", "create", path, "--security", "D:(A;;GR;;;WD)", "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        ended = await self.msmq("acl", "show", path, "--json")
        self.assertEqual(ended.objects[0]["sddl"], "O:ANG:AND:(A;;0x2002b;;;WD)")
        for sddl, words in (
            ("D:(A;;GR;;;W)", "MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR: [MS-DTYP] 2.5.1 SDDL.sid-string"),
            (
                "D:(A;;GA;;;WD)(OD;;0x4;06bd3202-df3e-11d1-9c86-006008764d0e;;AN)",
                "entry 2 of the DACL is of type ACCESS_DENIED_OBJECT, which neither allows nor denies",
            ),
            ("D:(AU;;0x4;;;WD)", "entry 1 of the DACL is of type SYSTEM_AUDIT"),
            ("D:(A;;0x100;;;WD)", "has 0x00000100 in its mask, which is not a right to a queue"),
        ):
            ended = await self.msmq("queue", "create", path + "2", "--security", sddl)
            self.assertEqual((ended.status, ended.output), (1, b""))
            self.assertIn(words, ended.errors)

    async def test_what_is_refused(self) -> None:
        """An unknown account, an unknown right, and a missing queue; nothing changes."""
        for arguments, words in (
            (("allow", "alice", ORDERS, "send"), "COULD_NOT_GET_USER_SID: 'alice' is neither a SID nor"),
            (("deny", "everyone", ORDERS, "fly"), "INVALID_PARAMETER: 'fly' is not a right to a queue"),
            (("why", "everyone", ORDERS, "create-queue"), "'create-queue' is not a right to a queue"),
            (("show", ".\\private$\\none"), "MQ_ERROR_QUEUE_NOT_FOUND"),
        ):  # fmt: skip
            ended = await self.msmq("acl", *arguments)
            self.assertEqual((ended.status, ended.output), (1, b""))
            self.assertIn(words, ended.errors)
        ended = await self.msmq("acl", "allow", "everyone", ORDERS)
        self.assertEqual(ended.status, 2)
        ended = await self.msmq("acl", "show", ORDERS, "--json")
        self.assertEqual(ended.objects[0]["sddl"], "O:ANG:AND:(A;;0xf003f;;;WD)")
