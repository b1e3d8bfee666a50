"""Whether a plan for Spark Connect runs inside of Spark alone, without code of the job. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.engine.reuse.isolation import is_builtin_format, is_code_free_expression
from stoker.engine.reuse.sql import names_no_relation

_SUSPICIOUS_FUNCTIONS = frozenset({"java_method", "reflect", "try_reflect"})


def runs_inside_spark(plan: Any) -> bool:
    """Of Spark Connect's messages: only what is known to run inside of Spark alone."""
    name = plan.DESCRIPTOR.full_name.removeprefix("spark.connect.")
    if name not in _PLAIN_MESSAGES and not name.startswith("DataType"):
        return False
    match name:
        case "DataType.UDT":
            return False
        case "Read.DataSource" if not is_builtin_format(plan.format or None):
            return False
        case "Expression.UnresolvedFunction" if plan.function_name in _SUSPICIOUS_FUNCTIONS:
            return False
        case "Expression.ExpressionString" if not is_code_free_expression(plan.expression):
            return False
    return all(runs_inside_spark(part) for part in _parts_of(plan))


def names_a_table(plan: Any) -> bool:
    """Also one that a query in an expression may name, or a function that is not Spark's own."""
    match plan.DESCRIPTOR.full_name.removeprefix("spark.connect."):
        case "Read.NamedTable":
            return True
        case "Expression.ExpressionString" if not names_no_relation(plan.expression):
            return True
    return any(map(names_a_table, _parts_of(plan)))


def _parts_of(message: Any) -> Iterable[Any]:
    """The messages in it. By what they are: to ask for a field's options costs a small query."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if hasattr(value, "DESCRIPTOR"):
            yield value
        else:
            parts = value.values() if isinstance(value, Mapping) else value
            yield from (part for part in parts if hasattr(part, "DESCRIPTOR"))


_PLAIN_MESSAGES = frozenset(
    [
        "Plan",
        "Relation",
        "RelationCommon",
        "Origin",
        "PythonOrigin",
        "ExpressionCommon",
        "Range",
        "Read",
        "Read.NamedTable",
        "Read.DataSource",
        "LocalRelation",
        "Project",
        "Filter",
        "Join",
        "Join.JoinDataType",
        "SetOperation",
        "Limit",
        "Offset",
        "Tail",
        "Sort",
        "Drop",
        "Deduplicate",
        "Aggregate",
        "Aggregate.Pivot",
        "Aggregate.GroupingSets",
        "Sample",
        "SubqueryAlias",
        "Repartition",
        "RepartitionByExpression",
        "NAFill",
        "NADrop",
        "NAReplace",
        "NAReplace.Replacement",
        "ToDF",
        "ToSchema",
        "WithColumns",
        "WithColumnsRenamed",
        "WithColumnsRenamed.Rename",
        "Hint",
        "Unpivot",
        "Unpivot.Values",
        "Expression",
        "Expression.Window",
        "Expression.Window.WindowFrame",
        "Expression.Window.WindowFrame.FrameBoundary",
        "Expression.SortOrder",
        "Expression.Cast",
        "Expression.Literal",
        "Expression.Literal.Decimal",
        "Expression.Literal.CalendarInterval",
        "Expression.Literal.Array",
        "Expression.Literal.Map",
        "Expression.Literal.Struct",
        "Expression.UnresolvedAttribute",
        "Expression.UnresolvedFunction",
        "Expression.ExpressionString",
        "Expression.UnresolvedStar",
        "Expression.UnresolvedRegex",
        "Expression.UnresolvedExtractValue",
        "Expression.UpdateFields",
        "Expression.Alias",
        "Expression.LambdaFunction",
        "Expression.UnresolvedNamedLambdaVariable",
    ]
)
"""Everything else may bring code along, now or in a later version of Spark."""
