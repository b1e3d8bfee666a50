"""Whether a job's Python function only describes a query and so leaves nothing in its process.

Decided from the function's pickle and bytecode before it is loaded, so that nothing of the job can
take part in the decision: only a straight line of calls to Spark with names listed here qualifies.
Anything else might start threads or processes, open files, or change a module for the next task.
"""

import dis
import sys
from types import FunctionType, ModuleType
from typing import Any

from stoker.engine.reuse.pickled_functions import PickledFunction, PickledName, read_function

_FUNCTIONS = "pyspark.sql.functions"
_KNOWN_INSTRUCTIONS = """
    CACHE NOP RESUME EXTENDED_ARG PUSH_NULL POP_TOP COPY SWAP
    LOAD_FAST LOAD_FAST_LOAD_FAST LOAD_FAST_CHECK STORE_FAST STORE_FAST_STORE_FAST
    STORE_FAST_LOAD_FAST LOAD_CONST LOAD_SMALL_INT LOAD_GLOBAL LOAD_ATTR LOAD_METHOD
    PRECALL CALL CALL_KW KW_NAMES RETURN_VALUE RETURN_CONST
    BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP LIST_EXTEND
    BINARY_OP BINARY_SUBSCR COMPARE_OP UNARY_NEGATIVE UNARY_INVERT
"""
"""Bytecode instructions that do not jump, import or define, and store local variables only."""
_KNOWN_METHODS = """
    range table read format option options schema load parquet json csv orc text
    select selectExpr where filter withColumn withColumns withColumnRenamed withColumnsRenamed drop
    dropDuplicates distinct groupBy groupby rollup cube pivot agg count sum avg mean min max
    join crossJoin union unionAll unionByName intersect intersectAll exceptAll subtract
    orderBy sort sortWithinPartitions limit offset repartition coalesce sample alias hint toDF
    fillna dropna replace
    cast asc desc isNull isNotNull between isin like rlike contains startswith endswith substr
    over when otherwise getItem getField eqNullSafe
"""
_INSTRUCTIONS = frozenset(_KNOWN_INSTRUCTIONS.split())
_METHODS = frozenset(_KNOWN_METHODS.split())
_KNOWN_MODULES = frozenset({"builtins", "pyspark", "typing"})
_SCALARS = (bool, int, float, str, bytes, type(None))


def only_describes_a_query(payload: bytes) -> bool:
    """Whether the pickled function leaves nothing behind when it is loaded and called."""
    function = read_function(payload)
    if function is None or function.has_values or not all(map(_is_known, function.names)):
        return False
    code = function.code
    try:
        return all(map(_is_scalar_constant, code.co_consts)) and all(
            _is_harmless(instruction, function) for instruction in dis.get_instructions(code)
        )
    except (LookupError, ValueError):
        # No compiler has written this bytecode.
        return False


def _is_known(name: PickledName) -> bool:
    """Whether it is loaded already; importing its module would run code."""
    return name.module.split(".")[0] in _KNOWN_MODULES and name.loaded() is not None


def _is_scalar_constant(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_scalar_constant, value))
    return isinstance(value, _SCALARS)


def _is_harmless(instruction: dis.Instruction, function: PickledFunction) -> bool:
    if instruction.opname not in _INSTRUCTIONS:
        return False
    match instruction.opname:
        case "LOAD_GLOBAL":
            variable = function.variables.get(instruction.argval)
            return isinstance(variable, PickledName) and _is_spark_function(variable.loaded())
        case "LOAD_ATTR" | "LOAD_METHOD":
            return instruction.argval in _METHODS or _is_spark_function(
                _spark_function(instruction.argval)
            )
        case _:
            return True


def _spark_function(name: str) -> Any:
    return getattr(sys.modules.get(_FUNCTIONS), name, None)


def _is_spark_function(value: object) -> bool:
    """Whether the value is the module `pyspark.sql.functions` or one of its functions.

    Functions that take code (UDFs) do not count.
    """
    if isinstance(value, ModuleType):
        return value is sys.modules.get(_FUNCTIONS)
    return (
        isinstance(value, FunctionType)
        and value.__module__.startswith(_FUNCTIONS)
        and not value.__name__.startswith("_")
        and not value.__name__.endswith(("udf", "udtf"))
    )
