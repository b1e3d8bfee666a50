"""Whether a function of a job does no more than describe a query, so that nothing is left of it.

Pure. What counts is its code: a straight line of calls to Spark, by names that are known here.
Everything else may start threads or processes, open files, or change a module for whoever comes
next.
"""

import dis
import sys
from types import FunctionType, ModuleType
from typing import Any

_FUNCTIONS = "pyspark.sql.functions"
_KNOWN_STEPS = """
    CACHE NOP RESUME EXTENDED_ARG PUSH_NULL POP_TOP COPY SWAP
    LOAD_FAST LOAD_FAST_LOAD_FAST LOAD_FAST_CHECK STORE_FAST STORE_FAST_STORE_FAST
    STORE_FAST_LOAD_FAST LOAD_CONST LOAD_SMALL_INT LOAD_GLOBAL LOAD_ATTR LOAD_METHOD
    PRECALL CALL CALL_KW KW_NAMES RETURN_VALUE RETURN_CONST
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP LIST_EXTEND
    BINARY_OP BINARY_SUBSCR COMPARE_OP UNARY_NEGATIVE UNARY_INVERT
"""
"""Of Python's machine: none jumps, imports or defines, and all that they store is variables."""
_KNOWN_NAMES = """
    range table read format option options schema load parquet json csv orc text
    select selectExpr where filter withColumn withColumns withColumnRenamed withColumnsRenamed drop
    dropDuplicates distinct groupBy groupby rollup cube pivot agg count sum avg mean min max
    join crossJoin union unionAll unionByName intersect intersectAll exceptAll subtract
    orderBy sort sortWithinPartitions limit offset repartition coalesce sample alias hint toDF
    fillna dropna replace
    cast asc desc isNull isNotNull between isin like rlike contains startswith endswith substr
    over when otherwise getItem getField eqNullSafe
"""
_STEPS = frozenset(_KNOWN_STEPS.split())
_NAMES = frozenset(_KNOWN_NAMES.split())
_KNOWN_MODULES = frozenset({"builtins", "pyspark", "typing"})
_SCALARS = (bool, int, float, str, bytes, type(None))


def only_describes_a_query(function: Any) -> bool:
    if not isinstance(function, FunctionType) or _belongs_to_a_module(function):
        return False
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function):
        return False
    if not all(map(_is_known_type, function.__annotations__.values())):
        return False
    code = function.__code__
    return all(map(_is_plain_value, code.co_consts)) and all(
        _is_plain_step(step, function) for step in dis.get_instructions(code)
    )


def _belongs_to_a_module(function: FunctionType) -> bool:
    """That was imported for it, and whose code has run then."""
    module = sys.modules.get(function.__module__ or "")
    return isinstance(module, ModuleType) and vars(module) is function.__globals__


def _is_known_type(annotation: object) -> bool:
    """Of a module that was there before: to bring another one along is to run its code."""
    module = getattr(annotation, "__module__", None) or type(annotation).__module__
    return module.split(".")[0] in _KNOWN_MODULES


def _is_plain_value(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain_value, value))
    return isinstance(value, _SCALARS)


def _is_plain_step(step: dis.Instruction, function: FunctionType) -> bool:
    if step.opname not in _STEPS:
        return False
    match step.opname:
        case "LOAD_GLOBAL":
            return _is_of_spark(function.__globals__.get(step.argval))
        case "LOAD_ATTR" | "LOAD_METHOD":
            return step.argval in _NAMES or _is_of_spark(_function_of_spark(step.argval))
        case _:
            return True


def _function_of_spark(name: str) -> Any:
    return getattr(sys.modules.get(_FUNCTIONS), name, None)


def _is_of_spark(value: object) -> bool:
    """The module of Spark's functions, or one of them, unless it takes code along."""
    if isinstance(value, ModuleType):
        return value is sys.modules.get(_FUNCTIONS)
    return (
        isinstance(value, FunctionType)
        and value.__module__.startswith(_FUNCTIONS)
        and not value.__name__.startswith("_")
        and not value.__name__.endswith(("udf", "udtf"))
    )
