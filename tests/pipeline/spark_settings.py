"""Settings of Spark with which small queries are quick, for the sessions that tests start."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from msmq.pipeline.spark.session import OF_JOBS, first_archives

SETTINGS: Final = {
    **OF_JOBS,
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # For a few rows more of this only costs time.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.ui.explainMode": "simple",
    # The first lower() of a session else loads a library that breaks texts into words.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.driver.extraClassPath": first_archives(),
    "spark.sql.warehouse.dir": tempfile.gettempdir(),
    # What runs for seconds is never worth the second compiler of the JVM; without it the cache of compiled
    # code is a fifth by default, which hundreds of queries fill. A large young generation is seldom
    # collected. Spark's own classes need no verification, which takes a fifth of the start.
    "spark.driver.extraJavaOptions": (
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote -XX:TieredStopAtLevel=1"
        " -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xms600m -Xmn300m"
    ),
}


def write_defaults(directory: Path) -> None:
    """Write the settings where a program finds them that has none of its own, with C{SPARK_CONF_DIR}."""
    lines = (f"{name} {value}\n" for name, value in SETTINGS.items())
    (directory / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
