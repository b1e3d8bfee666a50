"""Any PySpark script runs as it is: this one knows nothing of Stoker.

    stoker run examples/estimate_pi.py 8

Like every such script, it gets a Spark driver of its own and may use RDDs.
"""

import random
import sys

from pyspark.sql import SparkSession

POINTS = 20_000


def hits(seed: int) -> int:
    chance = random.Random(seed)
    return sum(chance.random() ** 2 + chance.random() ** 2 <= 1 for _ in range(POINTS))


if __name__ == "__main__":
    parts = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    spark = SparkSession.builder.appName("estimate-pi").getOrCreate()
    inside = spark.sparkContext.parallelize(range(parts), parts).map(hits).sum()
    print(f"pi is about {4 * inside / (POINTS * parts):.4f}")
    spark.stop()
