"""Loads the jobs that clients submit. The authoring API is large, so it is imported when used."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.pipeline.building import LoadedJob
    from stoker.pipeline.demands import DemandOverrides
    from stoker.pipeline.load import Loadable

log = logging.getLogger(__name__)


def load(
    job: "Loadable",
    *,
    params: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    name: str | None = None,
    configuration: Mapping[str, str] | None = None,
    demands: "DemandOverrides | None" = None,
) -> "LoadedJob":
    """The working directory is the base of the relative paths that the job reads and writes."""
    from stoker.pipeline.drafts import JobSettings  # noqa: PLC0415
    from stoker.pipeline.load import load_job  # noqa: PLC0415
    from stoker.pipeline.spark_settings import doubtful_settings  # noqa: PLC0415

    settings = JobSettings(
        name=name,
        params={key: str(value) for key, value in (params or {}).items()},
        arguments=tuple(arguments),
        configuration=configuration or {},
        demands=demands or {},
        directory=Path.cwd(),
    )
    loaded = load_job(job, settings)
    for warning in doubtful_settings(loaded.graph.configuration):
        log.warning("%s", warning)
    return loaded


def load_sql(
    script: str,
    *,
    default_name: str,
    params: Mapping[str, Any] | None = None,
    configuration: Mapping[str, str] | None = None,
    demands: "DemandOverrides | None" = None,
) -> "LoadedJob":
    from stoker.pipeline.load import SqlText  # noqa: PLC0415

    return load(
        SqlText(script, default_name), params=params, configuration=configuration, demands=demands
    )
