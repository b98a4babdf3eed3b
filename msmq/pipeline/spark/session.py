"""Spark session with the data source registered; local, unless Spark's settings name a cluster."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmq.errors import MsmqError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
"""Minimum Java version of Spark 4."""

ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Without it Spark pushes no filters down to data sources in Python.
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""The defaults of a session."""

LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Additional defaults of a local session, so that it listens on loopback only."""

OF_JOBS: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Additional settings of a session that runs only queries of this package.

Spark notes for each column which line of Python created it: half of the processor time that a job needs in
Python, for errors that name a line of this package.
"""

_DRIVER_OPTIONS: Final = "spark.driver.defaultJavaOptions"
"""Options of Java before the user's own in C{spark.driver.extraJavaOptions}, which take precedence."""

_QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

_CLASS_PATH: Final = "spark.driver.extraClassPath"

_MOST_CLASSES: Final = (
    *("spark-catalyst_", "spark-core_", "scala-library-", "spark-sql_", "scala-reflect-", "log4j-core-"),
    *("spark-sql-api_", "jackson-databind-", "spark-config_", "spark-network-common_", "spark-common-utils_"),
    *("hadoop-client-api-", "netty-common-", "jackson-module-scala_"),
)
"""What the names of the archives begin with from which Spark loads most classes."""

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_OF_A_CLUSTER: Final = "200"
"""Spark's default value of the setting."""
_SHARES: Final = 4
"""The value for a local session, for each core."""

_STARTED: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")
"""Variables of the environment that name a Java that has been started, or another server."""

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class SparkUnavailable(MsmqError):
    """Spark or a suitable Java is missing; the text says what to install."""


def make_session(
    name: str = "msmq", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Get the current Spark session, or create one, with C{format("msmq")} registered.

    Spark's own settings select the master: C{spark-submit --master}, C{$PYSPARK_SUBMIT_ARGS},
    C{spark.master} in C{spark-defaults.conf}, C{$SPARK_REMOTE}.
    Without any of them it is local, on all cores, and listens on loopback alone.

    @param master: overrides these settings, such as C{local[2]} or C{spark://HOST:7077}.
    @param settings: settings of Spark, which take precedence over the defaults.
    @raise SparkUnavailable: pyspark is not installed, or there is no session and no suitable Java.
    """
    find_spark()
    from pyspark.sql import SparkSession

    # A session that exists starts no Java.
    if "SPARK_REMOTE" not in os.environ and SparkSession.getActiveSession() is None:
        find_java()
    if master is None and not _has_master():
        master = "local[*]"
    given: dict[str, str] = {**ALWAYS}
    if master is not None:
        given["spark.master"] = master
        if master.startswith("local"):
            given |= LOCAL
            os.environ.setdefault("SPARK_LOCAL_IP", LOCAL["spark.driver.host"])
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Structured logs would print each error a second time, as JSON.
    for wordy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(wordy).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name)
    for key, value in {**given, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    # An installed module is found by Spark itself, which warns of a second registration.
    if find_spec("pyspark_msmq") is None:
        register(session)
    return session


def settings_for_little_data() -> Mapping[str, str]:
    """Settings for the start of a session with which little data is processed sooner. The JVM of a job on
    50,000 messages needs about half of the processor time, together with L{planned_once}.

    Java compiles quickly instead of well. The cache of compiled code keeps the size that it has with both
    compilers: with one alone Java's default is a fifth of that, which a dozen jobs in one session fill; Java
    then compiles nothing more, and threads of Spark end with an error for which their job waits forever.

    Classes are first looked for in the archives that have most of them. Texts are converted to lower case
    by Java and not by a library whose first use takes a second.

    @return: without those that Spark's own settings have; none if Java runs already, or elsewhere.
    """
    if not os.environ.keys().isdisjoint(_STARTED):
        return {}
    quick = {
        _DRIVER_OPTIONS: _QUICK_COMPILER,
        _CLASS_PATH: first_archives(),
        "spark.sql.icu.caseMappings.enabled": "false",
    }
    return {name: value for name, value in quick.items() if value and not _is_set(name)}


@contextmanager
def planned_once(spark: SparkSession, *, is_quick: bool) -> Iterator[None]:
    """Let a local session split small tables into as many parts as there are cores, while a job runs.

    In a cluster nothing is changed: there the parts of a table are combined by adaptive execution alone.

    @param is_quick: whether to plan queries once and not again after each of their stages, unless Spark's own
        settings say: for little data planning is the main cost.
    """
    # Only where Spark is installed.
    from py4j.protocol import Py4JError

    context = spark.sparkContext
    if not is_local(context.master or ""):
        yield
        return
    is_quick = is_quick and not context.getConf().contains(_ADAPTIVE)
    if is_quick:
        spark.conf.set(_ADAPTIVE, "false")
    is_default = spark.conf.get(_PARTITIONS) == _OF_A_CLUSTER
    if is_default:
        # Without adaptive execution none of them are combined.
        shares = _SHARES if str(spark.conf.get(_ADAPTIVE)).lower() == "true" else 1
        spark.conf.set(_PARTITIONS, context.defaultParallelism * shares)
    try:
        yield
    finally:
        # The next job in this session may have more data. If Java has ended, the job has failed by that.
        with suppress(Py4JError, OSError):
            if is_default:
                spark.conf.set(_PARTITIONS, _OF_A_CLUSTER)
            if is_quick:
                spark.conf.unset(_ADAPTIVE)


def is_local(master: str) -> bool:
    """Whether this master is the process itself."""
    return master == "local" or master.startswith("local[")


def first_archives() -> str:
    """The archives, separated by colons, in which Java looks for a class before it searches the nearly 300 of
    Spark one by one; empty if C{$SPARK_HOME} names another installation than that of the package.
    """
    package = _package()
    if package is None or "SPARK_HOME" in os.environ:
        return ""
    archives = package / "jars"
    return os.pathsep.join(
        str(archive) for name in _MOST_CLASSES for archive in sorted(archives.glob(f"{name}*.jar"))
    )


def register(spark: SparkSession) -> None:
    """Register C{format("msmq")} with a session.

    If msmq was installed from its wheel, Spark finds it without this, by C{pyspark_msmq}.
    """
    from msmq.pipeline.spark.source import MsmqDataSource

    spark.dataSource.register(MsmqDataSource)


def find_spark() -> None:
    """Check that pyspark and its dependencies are installed.

    @raise SparkUnavailable: one is missing.
    """
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise SparkUnavailable(f"{package} is not installed: pip install 'msmq[spark]'")


def find_java() -> Path:
    """The Java that Spark will start: that of C{$JAVA_HOME}, or else the first in C{$PATH}.

    @raise SparkUnavailable: there is no Java, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    if not os.access(found, os.X_OK):
        where = f"at $JAVA_HOME, {home}" if home else "in $PATH"
        raise SparkUnavailable(
            f"no Java {where}: Spark needs Java {OLDEST_JAVA} or newer; install it (Debian:"
            " apt-get install openjdk-17-jre-headless), or set $JAVA_HOME"
        )
    try:
        output = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as error:
        output = str(error)
    version = _VERSION.search(output)
    if version is None or int(version[1]) < OLDEST_JAVA:
        what = f"is Java {version[1]}" if version else "does not show its version"
        raise SparkUnavailable(f"{found} {what}: Spark needs Java {OLDEST_JAVA} or newer")
    return found


def _has_master() -> bool:
    """Whether Spark's own settings select the master."""
    if not os.environ.keys().isdisjoint(_STARTED):
        return True
    arguments = _submit_arguments()
    if any(argument.startswith(("--master", "--remote", "spark.master=")) for argument in arguments):
        return True
    return re.search(r"(?m)^\s*spark\.(master|remote)[\s=:]", _spark_defaults()) is not None


def _is_set(name: str) -> bool:
    """Whether Spark's own settings have this one."""
    arguments = _submit_arguments()
    if any(argument.startswith((f"{name}=", f"--conf={name}=")) for argument in arguments):
        return True
    if name == _CLASS_PATH and any(argument.startswith("--driver-class-path") for argument in arguments):
        return True
    return re.search(rf"(?m)^\s*{re.escape(name)}[\s=:]", _spark_defaults()) is not None


def _spark_defaults() -> str:
    """The text of C{spark-defaults.conf}, and of the file that C{--properties-file} names instead; empty if
    there is none.
    """
    home = os.environ.get("SPARK_HOME") or (str(found) if (found := _package()) else "")
    directory = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    given = re.search(r"--properties-file[=\0]([^\0]+)", "\0".join(_submit_arguments()))
    texts = []
    for path in [Path(directory, "spark-defaults.conf"), *([Path(given[1])] if given else [])]:
        with suppress(OSError, ValueError):
            texts.append(path.read_text(encoding="utf-8"))
    return "\n".join(texts)


def _submit_arguments() -> list[str]:
    return shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))


def _package() -> Path | None:
    """The directory of pyspark, which is the installation of Spark that came with it."""
    found = find_spec("pyspark")
    return Path(found.origin).parent if found is not None and found.origin is not None else None
