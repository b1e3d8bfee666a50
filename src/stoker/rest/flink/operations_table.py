"""Every operation of Flink's REST API and how Stoker answers it."""

from dataclasses import dataclass
from enum import StrEnum


class Support(StrEnum):
    SERVED = "served"
    """Answered, with Spark's meaning."""
    EMPTY = "empty"
    """Answered with an empty body of the right shape: Spark does not have the feature."""
    OFF = "off"
    """Refused in the way in which Flink refuses a feature that is switched off."""


@dataclass(frozen=True, kw_only=True)
class FlinkOperation:
    method: str
    path: str
    kind: Support
    note: str = ""


_SERVED = """
GET /applications/overview | every job is its own application
GET /applications/{applicationid}
POST /applications/{applicationid}/cancel
GET /applications/{applicationid}/exceptions
GET /applications/{applicationid}/jobmanager/config
DELETE /cluster | cancels all jobs, waits for them, then stops all masters and task executors
GET /config
GET /jars | programs: .py, .zip, .whl, .sql, .yml
POST /jars/upload
DELETE /jars/{jarid}
GET /jars/{jarid}/plan
POST /jars/{jarid}/plan | the program is loaded in its own process, never in a master
POST /jars/{jarid}/run | parallelism sets the number of shuffle partitions
POST /jars/{jarid}/run-application
GET /jobmanager/config
GET /jobmanager/environment | Python in the place of the JVM
GET /jobmanager/log
GET /jobmanager/logs
GET /jobmanager/logs/{file}
GET /jobmanager/metrics | the heap is the resident memory of the process
GET /jobmanager/stdout
GET /jobmanager/thread-dump
GET /jobs
POST /jobs | multipart, with a job graph of Stoker; see the description of a submission
GET /jobs/metrics
GET /jobs/overview
GET /jobs/{jobid}
PATCH /jobs/{jobid}
GET /jobs/{jobid}/accumulators
GET /jobs/{jobid}/checkpoints | one with every batch; see below
POST /jobs/{jobid}/checkpoints | done when Spark has committed the next batch
GET /jobs/{jobid}/checkpoints/config | interval is 0: Spark makes one with every batch
GET /jobs/{jobid}/checkpoints/details/{checkpointid} | only the last ones are remembered
GET /jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid} | sync: time to write logs
GET /jobs/{jobid}/checkpoints/{triggerid}
PATCH /jobs/{jobid}/clientHeartbeat
GET /jobs/{jobid}/config
GET /jobs/{jobid}/exceptions
GET /jobs/{jobid}/execution-result
GET /jobs/{jobid}/jobmanager/config
GET /jobs/{jobid}/jobmanager/environment
GET /jobs/{jobid}/jobmanager/log-url
GET /jobs/{jobid}/metrics | metrics of Spark begin with spark; see below
GET /jobs/{jobid}/plan
PATCH /jobs/{jobid}/rescaling | like the change of resource requirements
GET /jobs/{jobid}/rescaling/{triggerid}
GET /jobs/{jobid}/resource-requirements | upperBound: partitions of the vertex's shuffles
PUT /jobs/{jobid}/resource-requirements | the job continues under another id; 409 for a batch job
POST /jobs/{jobid}/savepoints | only of a streaming job; 409 at once for others
GET /jobs/{jobid}/savepoints/{triggerid}
GET /jobs/{jobid}/status
POST /jobs/{jobid}/stop | drain is refused: Spark cannot close all windows at once
GET /jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url
GET /jobs/{jobid}/vertices/{vertexid} | each region that contains the vertex is a subtask
GET /jobs/{jobid}/vertices/{vertexid}/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/metrics | the last vertex of a query shows those of the query
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/metrics
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators
GET /jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics
GET /jobs/{jobid}/vertices/{vertexid}/subtasktimes
GET /jobs/{jobid}/vertices/{vertexid}/taskmanagers
GET /jobs/{jobid}/vertices/{vertexid}/watermarks | of the streaming query that contains it
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
GET /taskmanagers/{taskmanagerid}/metrics | the heap is its own memory, the children are Spark
GET /taskmanagers/{taskmanagerid}/stdout
GET /taskmanagers/{taskmanagerid}/thread-dump
"""
_EMPTY = """
GET /datasets | Spark keeps no data sets for later jobs
GET /datasets/delete/{triggerid} | 404: Spark keeps no data sets
DELETE /datasets/{datasetid} | 404: Spark keeps no data sets
GET /jobs/{jobid}/vertices/{vertexid}/backpressure | Spark pulls its input: it has none
GET /jobs/{jobid}/vertices/{vertexid}/flamegraph | Spark does not sample its operators
GET /jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics | sources of Spark have no coordinators
"""
_OFF = """
GET /jobmanager/profiler | a thread dump shows what a process does
GET /taskmanagers/{taskmanagerid}/profiler | a thread dump shows what a process does
GET /jobs/{jobid}/rescales/config | 404, like Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/details/{rescaleuuid} | 404, like Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/history | 404, like Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/overview | 404, like Flink without its adaptive scheduler
GET /jobs/{jobid}/rescales/summary | 404, like Flink without its adaptive scheduler
"""


def _parse_table(kind: Support, lines: str) -> tuple[FlinkOperation, ...]:
    found = []
    for line in lines.strip().splitlines():
        place, _, note = line.partition(" | ")
        method, path = place.split()
        found.append(FlinkOperation(method=method, path=path, kind=kind, note=note))
    return tuple(found)


OPERATIONS = (
    *_parse_table(Support.SERVED, _SERVED),
    *_parse_table(Support.EMPTY, _EMPTY),
    *_parse_table(Support.OFF, _OFF),
)
