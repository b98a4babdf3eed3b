"""A driver of a cluster: counts rows of stores on the workers.

C{python -m tests.pipeline.processes.clustered MASTER LOCATION...} prints a line of JSON for each location.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from msmq.pipeline.spark import make_session
from msmq.pipeline.spark.failures import reason

WORKERS = 2
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # A task runs on any worker, and not where the first one was free.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "200s",
    "spark.task.maxFailures": "1",
}


def main() -> None:
    """Read each location."""
    of_workers = json.loads(os.environ.get("EXECUTOR", "{}"))
    environment = {f"spark.executorEnv.{name}": value for name, value in of_workers.items()}
    session = make_session("clustered", master=sys.argv[1], settings={**SETTINGS, **environment})
    session.sparkContext.setLogLevel("OFF")
    scala = session.sparkContext._jsc.sc()
    while scala.getExecutorMemoryStatus().size() < WORKERS + 1:
        time.sleep(0.1)
    for location in sys.argv[2:]:
        options = {"stream": "log", "minPartitions": "8", "columns": "offset,priority,label"}
        rows = session.read.format("msmq").options(**options).load(location)
        try:
            parts = rows.select(F.spark_partition_id().alias("part"), "offset").collect()
            found = {
                "offsets": sorted(row.offset for row in parts),
                "parts": len({row.part for row in parts}),
            }
        except PySparkException as error:
            found = {"error": reason(error)}
        print(json.dumps(found), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
