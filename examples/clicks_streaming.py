"""A streaming pipeline: clicks per page in windows of five minutes, with a watermark.

    python examples/make_data.py
    stoker run examples/clicks_streaming.py --param out=/tmp/clicks

It reads all files that are there and ends. With `--param trigger='2 seconds'` it runs until it is
stopped, and reads new files as they arrive.
"""

from pathlib import Path

from pyspark.sql import functions as F

from stoker import Pipeline

HERE = Path(__file__).parent

clicks_streaming = Pipeline(
    "clicks-streaming",
    parameters={"data": HERE / "data", "out": HERE / "out", "trigger": "available-now"},
    configuration={"spark.sql.shuffle.partitions": 2},
    restart={"strategy": "fixed-delay", "attempts": 3, "delay_seconds": 1},
)

clicks_streaming.source(
    "clicks",
    format="json",
    path="${data}/clicks",
    schema="at TIMESTAMP, page STRING, visitor LONG",
    streaming=True,
    maxFilesPerTrigger=1,
)


@clicks_streaming.transform
def page_views(clicks):
    return (
        clicks.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "5 minutes"), "page")
        .agg(F.count("*").alias("views"))
        .select(F.col("window.start").alias("since"), "page", "views")
    )


clicks_streaming.sink(
    "page_views",
    format="parquet",
    path="${out}/page_views",
    mode="append",
    trigger="${trigger}",
)
