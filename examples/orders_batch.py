"""A batch pipeline: orders and products become revenue by day and the best products.

python examples/make_data.py
stoker run examples/orders_batch.py --param out=/tmp/orders
"""

from pathlib import Path

from pyspark.sql import functions as F

from stoker import Pipeline

HERE = Path(__file__).parent

orders_batch = Pipeline(
    "orders-batch",
    parameters={"data": HERE / "data", "out": HERE / "out", "top": 3},
    configuration={"spark.sql.shuffle.partitions": 2},
)

orders_batch.source(
    "orders",
    format="csv",
    path="${data}/orders.csv",
    schema="order_id LONG, ordered_at TIMESTAMP, product_id STRING, country STRING, "
    "quantity INT, status STRING",
    header=True,
)


@orders_batch.source
def products(spark, params):
    return spark.read.json(f"{params['data']}/products.json")


# Two sinks need it. Because it is materialized, it is computed only once.
@orders_batch.transform(materialized=True)
def sales(orders, products):
    paid = orders.where(F.col("status") == "paid")
    return paid.join(products, "product_id").withColumn(
        "revenue", F.round(F.col("quantity") * F.col("price"), 2)
    )


orders_batch.transform(
    "revenue_by_day",
    sql="""
        SELECT to_date(ordered_at) AS day, category, round(sum(revenue), 2) AS revenue,
               count(*) AS orders
        FROM sales
        GROUP BY ALL
        ORDER BY day, category
    """,
)


@orders_batch.transform
def best_products(sales, params):
    totals = sales.groupBy("product").agg(F.round(F.sum("revenue"), 2).alias("revenue"))
    return totals.orderBy(F.desc("revenue")).limit(int(params["top"]))


orders_batch.sink(
    "revenue_by_day", format="parquet", path="${out}/revenue_by_day", mode="overwrite"
)
orders_batch.sink("best_products", format="parquet", path="${out}/best_products", mode="overwrite")
