"""Every operation of Flink's REST API, and what it means here."""

from dataclasses import dataclass
from enum import StrEnum


class Class(StrEnum):
    SERVED = "served"
    """With Spark's meaning."""
    EMPTY = "empty"
    """Spark has no such notion: an honest empty answer of the right shape."""
    OFF = "off"
    """Refused, as Flink refuses a feature that is switched off."""


@dataclass(frozen=True, kw_only=True)
class FlinkOperation:
    method: str
    path: str
    kind: Class
    note: str = ""


_SERVED = """
GET /applications/overview | every job is an application of its own
GET /applications/{applicationid}
POST /applications/{applicationid}/cancel
GET /applications/{applicationid}/exceptions
GET /applications/{applicationid}/jobmanager/config
DELETE /cluster | cancels all jobs, waits for them, then ends all masters and task executors
GET /config
GET /jars | programs: .py, .zip, .whl, .sql, .yml
POST /jars/upload
DELETE /jars/{jarid}
GET /jars/{jarid}/plan
POST /jars/{jarid}/plan | the program is loaded in a process of its own, never in a master
POST /jars/{jarid}/run | parallelism is the number of partitions of a shuffle
POST /jars/{jarid}/run-application
GET /jobmanager/config
GET /jobmanager/environment | Python in place of the JVM
GET /jobmanager/log
GET /jobmanager/logs
GET /jobmanager/logs/{file}
GET /jobmanager/metrics | heap is the resident memory of the process
GET /jobmanager/stdout
GET /jobmanager/thread-dump
GET /jobs
POST /jobs | multipart with the job graph of Stoker; see the description of a submission
GET /jobs/metrics
GET /jobs/overview
GET /jobs/{jobid}
PATCH /jobs/{jobid}
GET /jobs/{jobid}/accumulators | what Spark counts: rows and bytes, read and written
GET /jobs/{jobid}/checkpoints | a streaming job has one with every batch; see below
POST /jobs/{jobid}/checkpoints | done when Spark has committed the next batch
GET /jobs/{jobid}/checkpoints/config | interval 0: with every batch, whenever that is
GET /jobs/{jobid}/checkpoints/details/{checkpointid} | of those that are remembered
GET /jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid} | sync: to write the logs
GET /jobs/{jobid}/checkpoints/{triggerid}
PATCH /jobs/{jobid}/clientHeartbeat
GET /jobs/{jobid}/config
GET /jobs/{jobid}/exceptions
GET /jobs/{jobid}/execution-result
GET /jobs/{jobid}/jobmanager/config
GET /jobs/{jobid}/jobmanager/environment
GET /jobs/{jobid}/jobmanager/log-url
GET /jobs/{jobid}/metrics | figures of Spark begin with spark; see below
GET /jobs/{jobid}/plan
PATCH /jobs/{jobid}/rescaling | as the change of resource requirements
GET /jobs/{jobid}/rescaling/{triggerid}
GET /jobs/{jobid}/resource-requirements | upperBound: partitions of the vertex's shuffles
PUT /jobs/{jobid}/resource-requirements | the job goes on under another id; 409 for a batch job
POST /jobs/{jobid}/savepoints | of a streaming job; 409 at once where there can be none
GET /jobs/{jobid}/savepoints/{triggerid}
GET /jobs/{jobid}/status
POST /jobs/{jobid}/stop | drain is refused: Spark cannot end all windows at once
GET /jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url
GET /jobs/{jobid}/vertices/{vertexid} | a subtask is a region that contains the vertex
GET /jobs/{jobid}/vertices/{vertexid}/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/metrics | those of a query at the vertex that it ends in
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/metrics
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics
GET /jobs/{jobid}/vertices/{vertexid}/subtasktimes
GET /jobs/{jobid}/vertices/{vertexid}/taskmanagers
GET /jobs/{jobid}/vertices/{vertexid}/watermarks | of the streaming query that the vertex is in
GET /jobs/{jobid}/yarn-cancel
GET /jobs/{jobid}/yarn-stop
GET /overview
POST /savepoint-disposal
GET /savepoint-disposal/{triggerid}
GET /taskmanagers
GET /taskmanagers/metrics
GET /taskmanagers/{taskmanagerid}
GET /taskmanagers/{taskmanagerid}/log
GET /taskmanagers/{taskmanagerid}/logs
GET /taskmanagers/{taskmanagerid}/logs/{file}
GET /taskmanagers/{taskmanagerid}/metrics | own memory as the heap, that of Spark as children
GET /taskmanagers/{taskmanagerid}/stdout
GET /taskmanagers/{taskmanagerid}/thread-dump
"""
_EMPTY = """
GET /datasets | Spark keeps no data sets for later jobs
GET /datasets/delete/{triggerid} | so there is never such an operation
DELETE /datasets/{datasetid} | so none is found
GET /jobs/{jobid}/vertices/{vertexid}/backpressure | Spark pulls: nothing presses back
GET /jobs/{jobid}/vertices/{vertexid}/flamegraph | operators of Spark are not sampled
GET /jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics | Spark's sources have no coordinators
"""
_OFF = """
GET /jobmanager/profiler | a thread dump shows what a process does
GET /taskmanagers/{taskmanagerid}/profiler | a thread dump shows what a process does
GET /jobs/{jobid}/rescales/config | 404, as Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/details/{rescaleuuid} | 404, as Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/history | 404, as Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/overview | 404, as Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/summary | 404, as Flink without its adaptive scheduler
"""


def _parsed(kind: Class, lines: str) -> tuple[FlinkOperation, ...]:
    found = []
    for line in lines.strip().splitlines():
        place, _, note = line.partition(" | ")
        method, path = place.split()
        found.append(FlinkOperation(method=method, path=path, kind=kind, note=note))
    return tuple(found)


OPERATIONS = (
    *_parsed(Class.SERVED, _SERVED),
    *_parsed(Class.EMPTY, _EMPTY),
    *_parsed(Class.OFF, _OFF),
)
