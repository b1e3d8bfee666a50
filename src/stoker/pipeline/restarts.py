"""The restart policy as users write it: a policy, a mapping of its fields, or a strategy."""

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.core.errors import InvalidJobGraph
from stoker.core.faults import Fault, did_you_mean
from stoker.core.graph import RestartPolicy
from stoker.pipeline.texts import refuse


def restart_policy(given: RestartPolicy | Mapping[str, Any] | str | None) -> RestartPolicy | None:
    if given is None or isinstance(given, RestartPolicy):
        return given
    if isinstance(given, str):
        return RestartPolicy(strategy=given)
    if not isinstance(given, Mapping):
        raise refuse("restart", f"it is a {type(given).__name__}", "give a mapping")
    known = RestartPolicy.__struct_fields__
    faults = [
        str(Fault("restart", f"unknown key '{key}'", did_you_mean(str(key), known)))
        for key in given
        if key not in known
    ]
    if faults:
        raise InvalidJobGraph(faults)
    try:
        return msgspec.convert(dict(given), RestartPolicy)
    except msgspec.ValidationError as error:
        raise refuse("restart", str(error), "correct the value") from error
