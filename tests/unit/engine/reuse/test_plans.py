"""Which plans run entirely inside Spark."""

import pytest
from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2, types_pb2

from stoker.engine.reuse.plans import names_a_table, runs_inside_spark

Relation = relations_pb2.Relation
Expression = expressions_pb2.Expression

PLAIN_RELATIONS = frozenset(
    [
        "range",
        "read",
        "local_relation",
        "project",
        "filter",
        "join",
        "set_op",
        "limit",
        "offset",
        "tail",
        "sort",
        "drop",
        "deduplicate",
        "aggregate",
        "sample",
        "subquery_alias",
        "repartition",
        "repartition_by_expression",
        "fill_na",
        "drop_na",
        "replace",
        "to_df",
        "to_schema",
        "with_columns",
        "with_columns_renamed",
        "hint",
        "unpivot",
    ]
)
PLAIN_EXPRESSIONS = frozenset(
    [
        "literal",
        "unresolved_attribute",
        "unresolved_function",
        "expression_string",
        "unresolved_star",
        "alias",
        "cast",
        "unresolved_regex",
        "sort_order",
        "lambda_function",
        "window",
        "unresolved_extract_value",
        "update_fields",
        "unresolved_named_lambda_variable",
    ]
)


def over_ten_rows(*expressions: Expression) -> base_pb2.Plan:
    rows = Relation(range=relations_pb2.Range(start=0, end=10, step=1))
    project = relations_pb2.Project(input=rows, expressions=expressions)
    return base_pb2.Plan(root=Relation(project=project))


def calling(name: str, *arguments: Expression) -> Expression:
    function = Expression.UnresolvedFunction(function_name=name, arguments=arguments)
    return Expression(unresolved_function=function)


def python_function() -> Expression:
    function = expressions_pb2.CommonInlineUserDefinedFunction(
        function_name="mine", python_udf=expressions_pb2.PythonUDF(command=b"code")
    )
    return Expression(common_inline_user_defined_function=function)


@pytest.mark.parametrize("kind", [each.name for each in Relation.DESCRIPTOR.oneofs[0].fields])
def test_only_listed_relations_run_inside_spark(kind: str) -> None:
    """Relations that a new version of Spark adds count as code until they are listed."""
    relation = Relation()
    getattr(relation, kind).SetInParent()
    assert runs_inside_spark(base_pb2.Plan(root=relation)) is (kind in PLAIN_RELATIONS)


@pytest.mark.parametrize("kind", [each.name for each in Expression.DESCRIPTOR.oneofs[0].fields])
def test_only_listed_expressions_run_inside_spark(kind: str) -> None:
    expression = Expression()
    getattr(expression, kind).SetInParent()
    assert runs_inside_spark(over_ten_rows(expression)) is (kind in PLAIN_EXPRESSIONS)


def test_code_is_found_at_any_depth() -> None:
    literal = Expression(literal=Expression.Literal(integer=1))
    assert runs_inside_spark(over_ten_rows(calling("abs", calling("negative", literal))))
    deep = calling("abs", calling("negative", python_function()))
    assert not runs_inside_spark(over_ten_rows(deep))
    joined = relations_pb2.Join(
        left=over_ten_rows(literal).root, right=over_ten_rows(python_function()).root
    )
    assert not runs_inside_spark(base_pb2.Plan(root=Relation(join=joined)))


def test_java_calls_and_foreign_formats_do_not_run_inside_spark() -> None:
    assert not runs_inside_spark(over_ten_rows(calling("reflect")))
    text = Expression(expression_string=Expression.ExpressionString(expression="java_method('a')"))
    assert not runs_inside_spark(over_ten_rows(text))
    for name, plain in (("parquet", True), ("mine", False)):
        source = relations_pb2.Read.DataSource(format=name, options={"path": "/in"})
        read = Relation(read=relations_pb2.Read(data_source=source))
        assert runs_inside_spark(base_pb2.Plan(root=read)) is plain


def test_a_user_defined_column_type_is_code() -> None:
    struct = types_pb2.DataType.Struct(
        fields=[types_pb2.DataType.StructField(name="a", data_type=types_pb2.DataType(udt={}))]
    )
    cast = Expression.Cast(type=types_pb2.DataType(struct=struct))
    assert not runs_inside_spark(over_ten_rows(Expression(cast=cast)))


TABLE = Relation(read=relations_pb2.Read(named_table=relations_pb2.Read.NamedTable()))
FILES = Relation(read=relations_pb2.Read(data_source=relations_pb2.Read.DataSource()))


def _where(text: str) -> relations_pb2.Relation:
    condition = Expression(expression_string=Expression.ExpressionString(expression=text))
    return Relation(filter=relations_pb2.Filter(input=FILES, condition=condition))


@pytest.mark.parametrize(
    ("relation", "names"),
    [
        (FILES, False),
        (TABLE, True),
        (Relation(filter=relations_pb2.Filter(input=TABLE)), True),
        (_where("n > 3"), False),
        (_where("n IN (SELECT n FROM t)"), True),
        (_where("n IN (from t)"), True),
        (_where("n IN (TABLE t)"), True),
    ],
)
def test_tables_that_a_plan_names_are_found(relation: relations_pb2.Relation, names: bool) -> None:
    assert names_a_table(base_pb2.Plan(root=relation)) is names
