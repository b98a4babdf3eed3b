"""Programs that are forked with their imports done behave as they do when they are started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil
from twisted.trial.unittest import SynchronousTestCase

from tests.patience import DEADLINE
from tests.servers.prepared import (
    PROGRAMS,
    PreparedProcess,
    bin_directory,
    prepared_python,
    run,
    spark_python,
)

SERVER = ("-n", "--pidfile=", "msmq", "--data", "data", "--storage", "memory", "--name", "ALPHA")
REFUSED = ("status", "--data", "nowhere")


class PreparedTests(SynchronousTestCase):
    """The command and the server, forked and by themselves."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)

    def both(self, *command: str) -> list[tuple[int, str, str]]:
        """The results of a program by itself, and of a forked one."""
        path = [str(PROGRAMS / command[0]), *command[1:]]
        alone = subprocess.run(path, capture_output=True, text=True, timeout=DEADLINE, cwd=self.directory)
        forked = run(path, timeout=DEADLINE, cwd=self.directory)
        return [(done.returncode, done.stdout, done.stderr) for done in (alone, forked)]

    def test_same_command(self) -> None:
        """The command prints the same, and ends with the same status."""
        for command in (("msmq", "--version"), ("msmq", *REFUSED), ("msmq", "nonsense")):
            with self.subTest(command=command):
                alone, forked = self.both(*command)
                self.assertEqual(alone, forked)

    def test_same_refusal(self) -> None:
        """A server that cannot start says so in the same words, with the same status."""
        (self.directory / "msmq.toml").write_text("[limits]\nquta = 1\n")
        alone, forked = self.both("twistd", "-n", "--pidfile=", "msmq", "--config", "msmq.toml")
        self.assertEqual(alone, forked)
        self.assertEqual(alone[0], 1)

    def test_child_of_its_own(self) -> None:
        """It is a child of this process in a directory of its own, and a signal ends it."""
        process = PreparedProcess(
            ["twistd", *SERVER],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            # Nothing may end it before the signal: neither a port of another server nor a path of its control
            # socket that is too long.
            env={**os.environ, **{f"MSMQ_LISTEN_{name}": "off" for name in ("SESSION", "PING", "CONTROL")}},
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        found = psutil.Process(process.pid)
        self.assertEqual((found.ppid(), found.cwd()), (os.getpid(), str(self.directory)))
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(DEADLINE), -signal.SIGKILL)

    def test_other_interpreter(self) -> None:
        """With another PYTHONPATH it is not forked, since a fork would not heed it."""
        (self.directory / "sitecustomize.py").write_text("print('from elsewhere')\n")
        with PreparedProcess(
            [PROGRAMS / "msmq", "--version"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(self.directory)},
        ) as process:
            output, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("from elsewhere", output)

    def test_file_of_python(self) -> None:
        """A program finds its arguments, its own directory, and its interpreter."""
        program = self.directory / "program.py"
        (self.directory / "neighbour.py").write_text("found = 'neighbour'\n")
        program.write_text(
            "import sys\nfrom neighbour import found\nprint(__name__, sys.argv, sys.executable, found)\n"
            "sys.exit(7)\n"
        )
        for python in (Path(sys.executable), prepared_python()):
            with self.subTest(python=python):
                done = run([python, program, "one"], timeout=DEADLINE)
                self.assertEqual(
                    done.stdout, f"__main__ {[str(program), 'one']} {python} neighbour\n", done.stderr
                )
                self.assertEqual(done.returncode, 7)

    def test_end_of_a_program(self) -> None:
        """At its end threads are joined, exit functions run, files are flushed and warnings are printed."""
        program = self.directory / "program.py"
        for end, status in (("", 0), ("sys.exit('no use')", 1), ("sys.exit(258)", 2), ("1 / 0", 1)):
            program.write_text(f"{_WITHOUT_END}{end}\n")
            command = [sys.executable, str(program)]
            alone = partial(subprocess.run, command, capture_output=True, text=True, cwd=self.directory)
            for name, start in (("alone", alone), ("forked", partial(run, command, cwd=self.directory))):
                with self.subTest(end=end, start=name):
                    done = start(timeout=DEADLINE)
                    self.assertEqual((done.returncode, done.stdout), (status, "first\nthread\nexit\n"))
                    self.assertIn("never awaited", done.stderr)
                    self.assertEqual((self.directory / "result").read_text(), "unflushed")
                    (self.directory / "result").unlink()

    def test_plugins(self) -> None:
        """A directory of plugins in PYTHONPATH is found, as the server finds it by itself."""
        plugins = self.directory / "more" / "twisted" / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "another_plugin.py").write_text("print('the plugin was found')\n")
        path = os.pathsep.join([str(self.directory / "more"), *sys.path])
        with PreparedProcess(
            ["twistd", "--help"], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        ) as process:
            output, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("the plugin was found", output)

    def test_stopped(self) -> None:
        """A process that is to be traced waits for SIGCONT before it begins."""
        with StoppedProcess(["msmq", "--version"], stdout=subprocess.PIPE, text=True) as process:
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGCONT)
            output, _ = process.communicate(timeout=DEADLINE)
        self.assertIn("msmq", output)


_WITHOUT_END = """import atexit, sys, threading

async def waits():
    pass

class Cycle:
    def __init__(self):
        self.itself, self.never = self, waits()

def slow():
    begun.wait()
    print("thread")

atexit.register(print, "exit")
result = open("result", "w")
result.write("unflushed")
print("first")
begun = threading.Event()
threading.Thread(target=slow).start()
threading.Timer(0.01, begun.set).start()
Cycle()
"""


class StoppedProcess(PreparedProcess):
    """Begins at C{SIGCONT}."""

    is_stopped = True


class CommandTests(SynchronousTestCase):
    """The commands that a shell starts."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def shell(self, directory: Path, script: str) -> tuple[int, str]:
        """Exit status and output of a script in which the commands of a directory are found."""
        done = subprocess.run(
            ["/bin/sh", "-c", script],
            env={"PATH": f"{directory}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            cwd=self.directory,
        )
        return done.returncode, done.stdout

    def test_same_command(self) -> None:
        """Output, standard input and exit status are those of the installed command."""
        for script in ("msmq --version | cat", "msmq nonsense", "echo wrong | msmq config check /dev/stdin"):
            with self.subTest(script=script):
                self.assertEqual(self.shell(bin_directory(), script), self.shell(PROGRAMS, script))

    def server(self) -> tuple[subprocess.Popen[bytes], psutil.Process]:
        """A server that such a command has started, and its own process."""
        process = subprocess.Popen(
            [bin_directory() / "twistd", *SERVER[:1], "--pidfile=server.pid", *SERVER[2:]],
            env={**os.environ, "MSMQ_LISTEN_SESSION": "off", "MSMQ_LISTEN_PING": "off"},
            stdout=subprocess.DEVNULL,
            cwd=self.directory,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        give_up = time.monotonic() + DEADLINE
        while not (self.directory / "data" / "control.sock").exists():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), give_up)
            time.sleep(0.01)
        return process, psutil.Process(int((self.directory / "server.pid").read_text()))

    def test_signal(self) -> None:
        """A signal reaches the server, and the command ends by the same signal when the server has ended."""
        process, server = self.server()
        process.terminate()
        self.assertEqual(process.wait(DEADLINE), -signal.SIGTERM)
        self.assertFalse(server.is_running())

    def test_killed(self) -> None:
        """When the command is killed its server is."""
        process, server = self.server()
        process.kill()
        server.wait(DEADLINE)


class SparkPythonTests(SynchronousTestCase):
    """The interpreter that Spark starts for its workers."""

    def test_same_program(self) -> None:
        """Code and modules do the same as in the interpreter of the tests, a failing one too."""
        for arguments in (
            ("-c", "import sys; print('%d.%d' % sys.version_info[:2])"),
            ("-c", "import sys; sys.exit(7)"),
            ("-m", "json.tool", "--no-ensure-ascii", os.devnull),
            ("-m", "calendar", "2026", "11"),
        ):
            with self.subTest(arguments=arguments):
                alone, forked = (
                    subprocess.run(
                        [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
                    )
                    for program in (sys.executable, spark_python())
                )
                self.assertEqual((forked.returncode, forked.stdout), (alone.returncode, alone.stdout))
