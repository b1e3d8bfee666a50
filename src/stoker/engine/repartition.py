"""Changes the number of state partitions in checkpoints of stopped queries.

Run as `python -m stoker.engine.repartition PARTITIONS DIRECTORY…`. It starts a Spark of its own,
because Spark can repartition state only in a session with a JVM in reach, which a Connect session
does not have. Spark adds a batch without input to each checkpoint.
"""

import json
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(arguments: list[str]) -> int:
    partitions, directories = int(arguments[0]), arguments[1:]
    session = (
        SparkSession.builder.master("local[2]")
        .appName("repartition")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    try:
        for directory in directories:
            try:
                session._streamingCheckpointManager.repartition(directory, partitions)
            except PySparkException as error:
                print(json.dumps({"directory": directory, "error": str(error).splitlines()[0]}))
                return 1
    finally:
        session.stop()
    print(json.dumps({"done": len(directories)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
