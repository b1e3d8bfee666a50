"""What a user's function asks for, read from its signature."""

import inspect

from stoker.core.checks.structure import RESERVED_NAMES
from stoker.pipeline.drafts import FunctionDraft, UserFunction
from stoker.pipeline.texts import refuse

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def function_draft(function: UserFunction, *, place: str) -> FunctionDraft:
    """Parameters with a default are the function's own business and no edges."""
    if not callable(function) or isinstance(function, type):
        raise refuse(
            place,
            f"{function!r} is not a function",
            "write @pipeline.source above a def, or give format= or sql=",
        )
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise refuse(
            place,
            "the function is asynchronous or a generator",
            "write a plain function that returns a DataFrame",
        )
    names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in _VARIADIC:
            raise refuse(
                place,
                f"'{parameter}' says nothing about what the function reads",
                "name every input as a parameter of its own",
            )
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise refuse(
                place,
                f"parameter '{name}' is positional-only or keyword-only",
                "remove the '/' or '*' from the signature",
            )
        names.append(name)
    return FunctionDraft(function=function, parameters=tuple(names))


def sink_function_draft(function: UserFunction, *, place: str) -> FunctionDraft:
    """Spark calls it with the DataFrame, and the batch id; parameters of the job come last."""
    draft = function_draft(function, place=place)
    if "spark" in draft.parameters:
        raise refuse(
            place, "the function of a sink is not given 'spark'", "use df.sparkSession instead"
        )
    if "params" in draft.parameters[:-1]:
        raise refuse(place, "'params' is not its last parameter", "write it last")
    return draft


def name_of(function: UserFunction, given: str | None, *, kind: str) -> str:
    name = given or getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise refuse(kind, "a lambda has no name", "give name=, or use def")
    return name


def edges(draft: FunctionDraft) -> tuple[str, ...]:
    return tuple(name for name in draft.parameters if name not in RESERVED_NAMES)
