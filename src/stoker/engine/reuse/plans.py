"""Whether a Spark Connect plan runs inside Spark alone, without code of the job.

An allow-list of protobuf messages: a later version of Spark may add messages that bring code.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.engine.reuse.isolation import is_builtin_format, is_code_free_expression
from stoker.engine.reuse.sql import names_no_relation

_SUSPICIOUS_FUNCTIONS = frozenset({"java_method", "reflect", "try_reflect"})


def runs_inside_spark(plan: Any) -> bool:
    name = plan.DESCRIPTOR.full_name.removeprefix("spark.connect.")
    if name not in _HARMLESS_MESSAGES and not name.startswith("DataType"):
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
    return all(runs_inside_spark(part) for part in nested_messages(plan))


def names_a_table(plan: Any) -> bool:
    """Whether the plan names a table, or has an expression that may name one."""
    match plan.DESCRIPTOR.full_name.removeprefix("spark.connect."):
        case "Read.NamedTable":
            return True
        case "Expression.ExpressionString" if not names_no_relation(plan.expression):
            return True
    return any(map(names_a_table, nested_messages(plan)))


def nested_messages(message: Any) -> Iterable[Any]:
    """The nested messages, found by the type of the value: reading a field's options is slow."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if hasattr(value, "DESCRIPTOR"):
            yield value
        else:
            parts = value.values() if isinstance(value, Mapping) else value
            yield from (part for part in parts if hasattr(part, "DESCRIPTOR"))


_HARMLESS_MESSAGES = frozenset(
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
"""Messages that cannot carry code."""
