"""C{msmq check, top, events, context, completion} against a real queue manager."""

from __future__ import annotations

import json
import os

from tests.integration.test_control_socket import ORDERS, CommandTestCase


class CheckTests(CommandTestCase):
    """C{msmq check}."""

    async def test_thresholds(self) -> None:
        """The exit status and the line are those of a plugin of Nagios."""
        fine = await self.msmq("check")
        self.assertEqual(fine.status, 0, fine)
        self.assertTrue(fine.output.startswith(b"MSMQ OK - ALPHA: 1 queues, 0 messages | 'messages'=0;;;0"))
        await self.put(b"1", b"2")
        for thresholds, status, word in (("2", 1, "WARNING"), ("1,2", 2, "CRITICAL"), ("3,4", 0, "OK")):
            ended = await self.msmq("check", "--queue", ORDERS, "--messages", thresholds, "--json")
            self.assertEqual((ended.status, ended.objects[0]["status"]), (status, word))
        aged = await self.msmq("check", "--queue", ORDERS, "--age", ",0")
        self.assertEqual(aged.status, 2)
        self.assertIn(f"the oldest message of {ORDERS} is", aged.output.decode())
        gone = await self.msmq("check", "--control", "/nonexistent/socket")
        self.assertEqual((gone.status, gone.output[:15]), (2, b"MSMQ CRITICAL -"))

    async def test_quotas(self) -> None:
        """A full quota is CRITICAL, since messages are refused: of a queue, also one of 0, or of all."""
        await self.put(b"1")
        for arguments, reason in (
            (("queue", "set", ORDERS, "--quota", "0"), f"100 % of the quota of {ORDERS} used"),
            (("quota", "set", "--queues", "0"), "100 % of the quota of all messages used"),
        ):
            done = await self.msmq(*arguments)
            self.assertEqual(done.status, 0, done)
            ended = await self.msmq("check")
            self.assertEqual(ended.status, 2)
            self.assertIn(reason, ended.output.decode())


class MonitoringTests(CommandTestCase):
    """The other verbs."""

    async def test_top(self) -> None:
        """The fullest queue comes first, with rates."""
        await self.put(b"1")
        ended = await self.msmq("top", "queues", "--interval", "0.1", "--json")
        first = ended.objects[0]
        self.assertEqual((first["path"], first["messages"], first["out_rate"]), (ORDERS, 1, 0.0))

    async def test_watch(self) -> None:
        """Without a terminal there are totals and alarms as objects, and a hint without C{--json}."""
        await self.put(b"1")
        ended = await self.msmq("watch", "--json", "--interval", "0.1", "--count", "2")
        self.assertEqual((ended.status, len(ended.objects)), (0, 2), ended)
        self.assertEqual((ended.objects[1]["messages"], ended.objects[1]["alarms"]), (1, []))
        bare = await self.msmq("watch")
        self.assertEqual((bare.status, bare.errors.count("\n")), (2, 1))
        self.assertIn("msmq top", bare.errors)

    async def test_events(self) -> None:
        """Changes of operators are printed; Ctrl-C ends C{--follow} after the last entries."""
        await self.msmq("queue", "purge", ORDERS)
        [event] = (await self.msmq("events", "--where", "event == 'administered'", "--json")).objects
        self.assertIn("queue purge", event["reason"])
        following = self.begin("events", "--follow", "--json")
        while b"queue purge" not in following.output:
            await self.pause()
        self.service.note("tested", "later")
        while b"later" not in following.output:
            await self.pause()
        following.interrupt()
        ended = await following.ended
        self.assertEqual((ended.status, ended.errors), (0, ""))

    async def test_context(self) -> None:
        """A server that is used needs no option; one that is not kept is refused."""
        home = {"XDG_CONFIG_HOME": str(self.directory / "config"), "MSMQ_CONTROL": ""}
        added = await self.msmq("context", "add", "alpha", str(self.data), "--json", environment=home)
        self.assertEqual(added.objects[0]["place"], f"unix:{os.path.realpath(self.socket)}")
        wrong = await self.msmq("context", "use", "beta", environment=home)
        self.assertEqual(wrong.status, 2)
        self.assertIn("it has: alpha", wrong.errors)
        self.assertEqual((await self.msmq("context", "use", "alpha", environment=home)).status, 0)
        status = await self.msmq("status", "--json", environment=home)
        self.assertEqual(status.objects[0]["name"], "ALPHA")
        named = await self.msmq("status", environment={**home, "MSMQ_CONTEXT": "gamma"})
        self.assertEqual(named.status, 2)
        file = self.directory / "config" / "msmq" / "contexts.json"
        self.assertEqual(json.loads(file.read_text())["current"], "alpha")
        file.write_text("{")
        damaged = await self.msmq("context", "list", environment=home)
        self.assertEqual(damaged.status, 2)
        self.assertIn("contexts.json is damaged", damaged.errors)

    async def test_completion(self) -> None:
        """The script asks the command, which completes verbs."""
        script = await self.msmq("completion", "fish")
        self.assertIn(b"_MSMQ_COMPLETE=fish_complete", script.output)
        asked = {"_MSMQ_COMPLETE": "bash_complete", "COMP_WORDS": "msmq queue pu", "COMP_CWORD": "2"}
        completed = await self.msmq(environment=asked)
        self.assertEqual(completed.output, b"plain,purge\n")

    async def pause(self) -> None:
        """Let the reactor serve the command."""
        from twisted.internet.task import deferLater

        from tests.integration.test_control_socket import reactor

        await deferLater(reactor, 0.02)
