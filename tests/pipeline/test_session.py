"""How a session is made: which Java, where it runs, and what it says where something is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.spark import make_session
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.session import (
    ALWAYS,
    OF_JOBS,
    SparkUnavailable,
    find_java,
    planned_once,
    settings_for_little_data,
)
from tests.pipeline.spark_support import SparkTestCase

PROJECT = Path(__file__).resolve().parents[2]


class JavaTests(SynchronousTestCase):
    """The Java that Spark will start."""

    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(dir=self.mktemp_directory()))
        for name in ("JAVA_HOME", "PATH"):
            self.patch(os, "environ", {**os.environ, name: str(self.home)})

    def mktemp_directory(self) -> Path:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir(parents=True)
        return directory

    def java(self, version: str) -> Path:
        """A program that prints this version."""
        program = self.home / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
        program.chmod(0o755)
        return program

    def refused(self) -> str:
        return str(self.assertRaises(SparkUnavailable, find_java))

    def test_missing_java_or_pyspark(self) -> None:
        """If Java or pyspark is missing, one line names it and how to install it."""
        said = self.refused()
        self.assertIn(f"no Java at $JAVA_HOME, {self.home}", said)
        self.assertIn("apt-get install openjdk-17-jre-headless", said)
        self.assertNotIn("\n", said)
        self.patch(os, "environ", {"PATH": str(self.home)})
        self.assertIn("no Java in $PATH", self.refused())

    def test_found(self) -> None:
        """That of $JAVA_HOME is taken, and otherwise the first in $PATH."""
        program = self.java("21.0.1")
        self.assertEqual(find_java(), program)
        self.patch(os, "environ", {"PATH": str(program.parent)})
        self.assertEqual(find_java(), program)

    def test_too_old(self) -> None:
        """One that is too old is refused with its version; before Java 9 it was called 1.8."""
        for version, number in (("11.0.2", 11), ("1.8.0_402", 8)):
            with self.subTest(version=version):
                program = self.java(version)
                self.assertEqual(self.refused(), f"{program} is Java {number}: Spark needs Java 17 or newer")
                program.unlink()
                program.parent.rmdir()


class LittleDataTests(SynchronousTestCase):
    """The settings for jobs with small inputs."""

    def test_defaults_of_the_installation(self) -> None:
        """Default options of Java in C{spark-defaults.conf} are not replaced; others do not matter."""
        directory = Path(self.mktemp())
        directory.mkdir()
        self.patch(os, "environ", {**os.environ, "SPARK_CONF_DIR": str(directory)})
        os.environ.pop("SPARK_HOME", None)
        quick = settings_for_little_data()
        options = "spark.driver.defaultJavaOptions"
        self.assertIn("-XX:TieredStopAtLevel=1", quick[options])
        file = directory / "spark-defaults.conf"
        file.write_text("spark.driver.extraJavaOptions -Dsome=option\n")
        self.assertEqual(settings_for_little_data(), quick)
        for name, value in (
            (options, "-Djavax.net.ssl.trustStore=/etc/trust"),
            ("spark.driver.extraClassPath", "/opt/driver.jar"),
            ("spark.sql.icu.caseMappings.enabled", "true"),
        ):
            with self.subTest(name=name):
                file.write_text(f"{name} {value}\n")
                self.assertEqual(settings_for_little_data().keys(), quick.keys() - {name})
                file.write_text("")
                os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf {name}={value} pyspark-shell"
                self.assertEqual(settings_for_little_data().keys(), quick.keys() - {name})
                given = directory / "given.conf"
                given.write_text(f"{name} {value}\n")
                for separator in (" ", "="):
                    arguments = f"--properties-file{separator}{given} pyspark-shell"
                    os.environ["PYSPARK_SUBMIT_ARGS"] = arguments
                    self.assertEqual(settings_for_little_data().keys(), quick.keys() - {name})
                del os.environ["PYSPARK_SUBMIT_ARGS"]

    def test_java_that_runs(self) -> None:
        """What C{spark-submit} or another server has started keeps the settings that it has."""
        for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
            self.patch(os, "environ", {name: "1"})
            self.assertEqual({}, settings_for_little_data())

    def test_class_path(self) -> None:
        """Java looks for classes in Spark's largest archives first, unless other ones are set."""
        name = "spark.driver.extraClassPath"
        self.patch(os, "environ", {**os.environ, "SPARK_CONF_DIR": self.mktemp()})
        os.environ.pop("SPARK_HOME", None)
        archives = settings_for_little_data()[name].split(os.pathsep)
        self.assertTrue(all(Path(archive).is_file() for archive in archives))
        self.assertTrue(any("spark-catalyst_" in archive for archive in archives))
        os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-class-path /opt/driver.jar pyspark-shell"
        self.assertNotIn(name, settings_for_little_data())
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        os.environ["SPARK_HOME"] = "/opt/spark"
        self.assertNotIn(name, settings_for_little_data())

    def test_room_for_compiled_code(self) -> None:
        """Java has as much room for compiled code as without the settings; a session that runs out hangs."""
        given = settings_for_little_data()["spark.driver.defaultJavaOptions"].split()
        self.assertGreaterEqual(self.room(given), self.room([]))

    def room(self, options: list[str]) -> int:
        """The bytes that Java reserves for compiled code."""
        command = [str(find_java()), *options, "-XX:+PrintFlagsFinal", "-version"]
        flags = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(r"ReservedCodeCacheSize\s*=\s*(\d+)", flags)
        assert found is not None
        return int(found[1])


class SessionTests(SparkTestCase):
    """A session that was made."""

    def test_planned_once(self) -> None:
        """For little data queries are planned once while a job runs, unless the session was made with the
        setting; a table then has as many parts as there are cores.
        """
        names = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
        before = [str(self.spark.conf.get(name)) for name in names]
        for name, value in zip(names, before, strict=True):
            self.addCleanup(self.spark.conf.set, name, value)
        for adaptive, shares in (("true", 4), ("false", 1)):
            self.spark.conf.set(names[0], adaptive)
            self.spark.conf.set(names[1], "200")
            with planned_once(self.spark, is_quick=True):
                parts = str(self.spark.sparkContext.defaultParallelism * shares)
                self.assertEqual([adaptive, parts], [self.spark.conf.get(name) for name in names])
            self.assertEqual([adaptive, "200"], [self.spark.conf.get(name) for name in names])

    def test_settings(self) -> None:
        """It is local, listens on loopback alone, shows times in UTC, and pushes filters down."""
        self.assertEqual(self.spark.sparkContext.master, "local[2]")
        self.assertEqual(self.spark.conf.get("spark.driver.bindAddress"), "127.0.0.1")
        self.assertEqual(self.spark.conf.get("spark.ui.enabled"), "false")
        for name, value in ALWAYS.items():
            self.assertEqual(self.spark.conf.get(name), value)

    def test_a_session_that_exists(self) -> None:
        """It is returned, and no Java is looked for, which only a new one starts."""
        self.patch(os, "environ", {**os.environ, "JAVA_HOME": "/nowhere"})
        self.assertRaises(SparkUnavailable, find_java)
        self.assertIs(make_session("another").sparkContext, self.spark.sparkContext)

    def test_lines_of_columns(self) -> None:
        """With the settings of jobs no error has the line of Python that made a column; they change no
        session that exists.
        """
        for name, value in OF_JOBS.items():
            self.assertEqual((self.spark.conf.get(name), self.spark.conf.isModifiable(name)), (value, False))
        wrong = (F.col("id") + F.array(F.lit(1))).alias("sum")
        error = self.assertRaises(AnalysisException, self.spark.range(1).select, wrong)
        lines = [one.callSite() for one in error.getQueryContext()]
        self.assertEqual([line for line in lines if Path(__file__).name in line], [])

    def test_data_source_is_known(self) -> None:
        """The format is known without another word."""
        error = self.assertRaises(AnalysisException, self.spark.read.format("msmq").load)
        self.assertEqual(
            reason(error), "the option path (a data directory, or files) or dsn (PostgreSQL) is missing"
        )


class NothingInstalledTests(SynchronousTestCase):
    """Where Spark is not installed."""

    def test_missing_package(self) -> None:
        """One line names the package and the extra; nothing of the pipeline needs pyspark to be imported."""
        script = (
            "import sys, importlib.util as u\n"
            "find = u.find_spec\n"
            "u.find_spec = lambda name: None if name == 'pyspark' else find(name)\n"
            "from msmq.pipeline.spark import SparkUnavailable, make_session\n"
            "assert 'pyspark' not in sys.modules\n"
            "try:\n    make_session()\nexcept SparkUnavailable as error:\n    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PROJECT)
        self.assertEqual(done.stdout, "pyspark is not installed: pip install 'msmq[spark]'\n", done.stderr)
