"""Answers about the vertices of a job and their subtasks, in the form of Flink's REST API."""

import msgspec

from stoker.api.metrics import VertexAggregates, VertexMetrics
from stoker.api.shape import Answer, Dashed
from stoker.core.states import ExecutionState


class SubtaskAttempt(Dashed, frozen=True, kw_only=True):
    """GET …/subtasks/:index and …/attempts/:attempt"""

    subtask: int
    status: ExecutionState
    attempt: int
    endpoint: str
    start_time: int
    end_time: int
    duration: int
    metrics: VertexMetrics
    taskmanager_id: str
    status_duration: dict[ExecutionState, int]
    start_time_again: int = msgspec.field(name="start_time")
    """Flink sends this field under two names; older clients read this one."""


class VertexAnswer(Dashed, frozen=True, kw_only=True):
    """GET /jobs/:id/vertices/:vertex"""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = msgspec.field(name="maxParallelism")
    now: int
    subtasks: list[SubtaskAttempt]
    aggregated: VertexAggregates


class SubtaskTime(Answer, frozen=True, kw_only=True):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[ExecutionState, int]


class SubtaskTimes(Answer, frozen=True, kw_only=True):
    """GET …/subtasktimes"""

    id: str
    name: str
    now: int
    subtasks: list[SubtaskTime]


class VertexTaskManager(Dashed, frozen=True, kw_only=True):
    endpoint: str
    status: ExecutionState
    start_time: int
    end_time: int
    duration: int
    metrics: VertexMetrics
    status_counts: dict[ExecutionState, int]
    taskmanager_id: str
    aggregated: VertexAggregates


class VertexTaskManagers(Answer, frozen=True, kw_only=True):
    """GET …/taskmanagers"""

    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]
