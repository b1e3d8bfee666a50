-- A SQL script: the products that sold best on one day.
--
--   python examples/make_data.py
--   stoker run examples/top_products.sql --param day=2026-11-02 --param out=/tmp/top
--
-- name: top-products
-- param: data=${job_directory}/data
-- param: out=${job_directory}/out
-- param: day=2026-11-01
-- conf: spark.sql.shuffle.partitions=2

CREATE OR REPLACE TEMPORARY VIEW orders
USING csv
OPTIONS (path '${data}/orders.csv', header 'true', inferSchema 'true');

CREATE OR REPLACE TEMPORARY VIEW products
USING json
OPTIONS (path '${data}/products.json');

INSERT OVERWRITE DIRECTORY '${out}/top_products'
USING parquet
SELECT product, sum(quantity) AS pieces, round(sum(quantity * price), 2) AS revenue
FROM orders JOIN products USING (product_id)
WHERE status = 'paid' AND to_date(ordered_at) = DATE '${day}'
GROUP BY product
ORDER BY revenue DESC
LIMIT 5;
