"""C{python -m msmq.pipeline}: runs a Spark job."""

from __future__ import annotations

import sys

from msmq.pipeline.spark import SparkUnavailable
from msmq.pipeline.spark.session import find_spark


def main() -> int:
    """Run a job, and return the exit status."""
    try:
        find_spark()
    except SparkUnavailable as error:
        print(f"python -m msmq.pipeline: {error}", file=sys.stderr)
        return 1
    from msmq.pipeline.spark.command import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
