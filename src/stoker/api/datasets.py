"""Answers about data sets that a cluster keeps for later jobs: Spark has no such notion."""

from typing import Any

from stoker.api.shape import Answer


class DataSets(Answer, frozen=True, kw_only=True, rename={"data_sets": "dataSets"}):
    """GET /datasets"""

    data_sets: list[dict[str, Any]] = []
