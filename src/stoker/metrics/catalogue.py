"""The catalogue: every metric that a process of Stoker exposes.

A metric is measured only by its definition here, so the reference page, the exposition and the
code cannot differ. Names and labels are an interface: dashboards and alert rules depend on them.
The figures of a process itself have the names that all Prometheus clients use (`process_…`).
"""

from stoker.metrics.definitions import (
    LATENCY,
    WAITS,
    Catalogue,
    MetricDefinition,
    MetricKind,
    Unit,
    Where,
)

CATALOGUE = Catalogue()


def _metric(
    name: str,
    kind: MetricKind,
    where: Where,
    help: str,
    *,
    unit: Unit = Unit.NONE,
    labels: tuple[str, ...] = (),
    bounds: tuple[float, ...] = (),
) -> MetricDefinition:
    return CATALOGUE.add(
        MetricDefinition(
            name=name, kind=kind, where=where, help=help, unit=unit, labels=labels, bounds=bounds
        )
    )


_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_SECONDS, _BYTES = Unit.SECONDS, Unit.BYTES
_ALL, _MASTER, _LEADER, _EXECUTOR = Where.ALL, Where.MASTER, Where.LEADER, Where.EXECUTOR

# The process

BUILD = _metric(
    "stoker_build_info",
    _GAUGE,
    _ALL,
    "Always 1; the labels say which process this is and which version it runs.",
    labels=("version", "component", "resource_id"),
)
CPU = _metric(
    "process_cpu_seconds_total",
    _COUNTER,
    _ALL,
    "Processor time of the process, without its child processes.",
    unit=_SECONDS,
)
RESIDENT = _metric(
    "process_resident_memory_bytes",
    _GAUGE,
    _ALL,
    "Resident memory of the process, without its child processes.",
    unit=_BYTES,
)
STARTED = _metric(
    "process_start_time_seconds",
    _GAUGE,
    _ALL,
    "When the process started, in seconds since 1970.",
    unit=_SECONDS,
)
OPEN_FILES = _metric("process_open_fds", _GAUGE, _ALL, "Files that the process has open.")
MAX_FILES = _metric("process_max_fds", _GAUGE, _ALL, "How many files the process may open.")
THREADS = _metric("process_threads", _GAUGE, _ALL, "Threads of the process.")
GC_RUNS = _metric(
    "python_gc_collections_total",
    _COUNTER,
    _ALL,
    "Runs of Python's garbage collector.",
    labels=("generation",),
)
PEAK = _metric(
    "stoker_process_peak_memory_bytes",
    _GAUGE,
    _ALL,
    "Largest resident memory that the process ever had.",
    unit=_BYTES,
)
MODULES = _metric("stoker_python_modules", _GAUGE, _ALL, "Python modules that are loaded.")
MACHINE_MEMORY = _metric(
    "stoker_machine_memory_bytes",
    _GAUGE,
    _ALL,
    "Memory of the machine: all of it, and what programs could still get.",
    labels=("kind",),
    unit=_BYTES,
)
LOOP_LAG = _metric(
    "stoker_event_loop_lag_seconds",
    _HISTOGRAM,
    _ALL,
    "How late the event loop ran a timer, measured twice a second.",
    unit=_SECONDS,
    bounds=LATENCY,
)

# RPC, coordinator and storage

RPC_DURATION = _metric(
    "stoker_rpc_duration_seconds",
    _HISTOGRAM,
    _ALL,
    "Time from the arrival of a call at this process to its answer.",
    unit=_SECONDS,
    labels=("gateway", "method"),
    bounds=LATENCY,
)
RPC_ERRORS = _metric(
    "stoker_rpc_errors_total",
    _COUNTER,
    _ALL,
    "Calls that this process answered with an error.",
    labels=("gateway", "method", "error"),
)
COORDINATOR_DURATION = _metric(
    "stoker_coordinator_operation_duration_seconds",
    _HISTOGRAM,
    _ALL,
    "Time of an operation at the coordinator that succeeded.",
    unit=_SECONDS,
    labels=("session", "operation"),
    bounds=LATENCY,
)
COORDINATOR_ERRORS = _metric(
    "stoker_coordinator_errors_total",
    _COUNTER,
    _ALL,
    "Operations at the coordinator that failed; a condition that was not met is no failure.",
    labels=("session", "operation", "error"),
)
COORDINATOR_CONNECTED = _metric(
    "stoker_coordinator_connected",
    _GAUGE,
    _ALL,
    "1 while a session has contact to the coordinator, else 0.",
    labels=("session",),
)
STORAGE_DURATION = _metric(
    "stoker_storage_operation_duration_seconds",
    _HISTOGRAM,
    _ALL,
    "Time of an operation at the storage that succeeded.",
    unit=_SECONDS,
    labels=("operation",),
    bounds=LATENCY,
)
STORAGE_ERRORS = _metric(
    "stoker_storage_errors_total",
    _COUNTER,
    _ALL,
    "Operations that failed because the storage is away or full.",
    labels=("operation", "error"),
)

# REST

REST_DURATION = _metric(
    "stoker_rest_request_duration_seconds",
    _HISTOGRAM,
    _MASTER,
    "Time from a request to the end of its answer. Requests that wait for a change, and streams, "
    "are left out.",
    unit=_SECONDS,
    labels=("method", "route"),
    bounds=LATENCY,
)
REST_REQUESTS = _metric(
    "stoker_rest_requests_total",
    _COUNTER,
    _MASTER,
    "Requests by the status of their answer, streams and those that wait included.",
    labels=("method", "route", "status"),
)

# Leadership

LEADING = _metric("stoker_master_is_leading", _GAUGE, _MASTER, "1 while this master leads, else 0.")
EPOCH = _metric(
    "stoker_epoch", _GAUGE, _MASTER, "The newest epoch of the cluster that this master knows of."
)
LEADERSHIPS = _metric(
    "stoker_leaderships_total", _COUNTER, _MASTER, "How often this master began to lead."
)
TAKEOVER = _metric(
    "stoker_takeover_duration_seconds",
    _HISTOGRAM,
    _MASTER,
    "Time from the moment at which this master noticed that nobody leads until its dispatcher "
    "answered, with all records read.",
    unit=_SECONDS,
    bounds=WAITS,
)

# Jobs

JOBS = _metric(
    "stoker_jobs", _GAUGE, _LEADER, "Jobs that have not ended, by state.", labels=("state",)
)
JOBS_WAITING = _metric(
    "stoker_jobs_waiting",
    _GAUGE,
    _LEADER,
    "Jobs that wait for their turn in a queue, or for a slot.",
    labels=("waits_for",),
)
JOBS_KEPT = _metric(
    "stoker_job_results",
    _GAUGE,
    _LEADER,
    "Ended jobs whose results are still on record.",
    labels=("state",),
)
JOBS_QUARANTINED = _metric(
    "stoker_jobs_quarantined", _GAUGE, _LEADER, "Jobs whose records cannot be loaded."
)
JOBS_ENDED = _metric(
    "stoker_jobs_ended_total",
    _COUNTER,
    _LEADER,
    "Jobs whose end this master recorded.",
    labels=("state",),
)
SUBMISSIONS = _metric(
    "stoker_job_submissions_total",
    _COUNTER,
    _LEADER,
    "Submissions: accepted, repeated (known already) or refused. The reason of a refusal is the "
    "type of its error.",
    labels=("outcome", "reason"),
)
QUEUE_WAIT = _metric(
    "stoker_queue_wait_seconds",
    _HISTOGRAM,
    _LEADER,
    "How long jobs waited for their turn in their queue.",
    unit=_SECONDS,
    labels=("queue",),
    bounds=WAITS,
)
JOB_RESTARTS = _metric(
    "stoker_job_restarts_total",
    _COUNTER,
    _LEADER,
    "Restarts of a running job's tasks under this leader.",
    labels=("job_id", "job_name"),
)
JOB_UPTIME = _metric(
    "stoker_job_running_seconds",
    _GAUGE,
    _LEADER,
    "How long a job has been running without an interruption; 0 in every other state.",
    unit=_SECONDS,
    labels=("job_id", "job_name"),
)

SAVEPOINTS = _metric(
    "stoker_savepoints_total",
    _COUNTER,
    _LEADER,
    "Savepoints, by kind (savepoint, or stop: taken to stop the job) and outcome.",
    labels=("kind", "outcome"),
)
SAVEPOINT_DURATION = _metric(
    "stoker_savepoint_duration_seconds",
    _HISTOGRAM,
    _LEADER,
    "Time of a savepoint that was completed; one that stops a job first waits for its streams.",
    unit=_SECONDS,
    labels=("kind",),
    bounds=WAITS,
)
SAVEPOINT_SIZE = _metric(
    "stoker_savepoint_size_bytes",
    _HISTOGRAM,
    _LEADER,
    "Size of a completed savepoint.",
    unit=_BYTES,
    labels=("kind",),
    bounds=(1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11),
)

# Slots and task executors

EXECUTORS = _metric(
    "stoker_task_executors",
    _GAUGE,
    _LEADER,
    "Task executors that are registered, that drain (registered too), or that a provider is "
    "starting.",
    labels=("state",),
)
CLUSTER_SLOTS = _metric(
    "stoker_cluster_slots",
    _GAUGE,
    _LEADER,
    "Slots of all registered task executors.",
    labels=("state",),
)
EXECUTORS_LOST = _metric(
    "stoker_task_executors_lost_total",
    _COUNTER,
    _LEADER,
    "Task executors that went away, in order or not.",
)
HEARTBEATS_MISSED = _metric(
    "stoker_heartbeats_missed_total",
    _COUNTER,
    _ALL,
    "Heartbeats that this process sent and that nobody answered.",
    labels=("link",),
)
HEARTBEAT_LOSSES = _metric(
    "stoker_heartbeat_losses_total",
    _COUNTER,
    _ALL,
    "Processes that were given up because of missing heartbeats.",
    labels=("link", "verdict"),
)

# Task executors

SLOTS = _metric(
    "stoker_slots", _GAUGE, _EXECUTOR, "Slots of this task executor.", labels=("state",)
)
TASKS = _metric(
    "stoker_tasks",
    _GAUGE,
    _EXECUTOR,
    "Tasks at this task executor that have not ended, by state.",
    labels=("state",),
)
TASKS_ENDED = _metric(
    "stoker_tasks_ended_total",
    _COUNTER,
    _EXECUTOR,
    "Tasks that ended at this task executor.",
    labels=("state",),
)
LEASES_RENEWED = _metric(
    "stoker_lease_renewals_total",
    _COUNTER,
    _EXECUTOR,
    "Renewals of leases, by what allowed them: job_master, no_leader (the coordinator shows that "
    "nobody leads), failsafe (masters vouch while the coordinator is away), or undriven (no job "
    "master drives the job yet).",
    labels=("way",),
)
LEASES_EXPIRED = _metric(
    "stoker_leases_expired_total",
    _COUNTER,
    _EXECUTOR,
    "Tasks that were cancelled because nobody renewed their lease.",
)
ENGINE_STATE = _metric(
    "stoker_engine_state",
    _GAUGE,
    _EXECUTOR,
    "1 for the present state of the engine, 0 for the others.",
    labels=("state",),
)
WARM_PROCESSES = _metric(
    "stoker_warm_processes",
    _GAUGE,
    _EXECUTOR,
    "Runners and drivers that are ready for the next task.",
    labels=("kind",),
)
CHILD_MEMORY = _metric(
    "stoker_child_processes_resident_memory_bytes",
    _GAUGE,
    _EXECUTOR,
    "Resident memory of the child processes, read every ten seconds: the Spark server, its Python "
    "workers, runners with the zygote, and drivers with all others. Memory that processes share "
    "counts for each of them.",
    unit=_BYTES,
    labels=("kind",),
)
CHILDREN = _metric(
    "stoker_child_processes",
    _GAUGE,
    _EXECUTOR,
    "Child processes, read every ten seconds.",
    labels=("kind",),
)
JVM_HEAP = _metric(
    "stoker_spark_heap_bytes",
    _GAUGE,
    _EXECUTOR,
    "Heap of the Spark server, read every ten seconds: used, committed and max.",
    unit=_BYTES,
    labels=("kind",),
)
JVM_CPU = _metric(
    "stoker_spark_cpu_seconds_total",
    _COUNTER,
    _EXECUTOR,
    "Processor time of the Spark server, without Python workers.",
    unit=_SECONDS,
)
JVM_GC = _metric(
    "stoker_spark_gc_seconds_total",
    _COUNTER,
    _EXECUTOR,
    "Time that the Spark server has spent on garbage collection.",
    unit=_SECONDS,
    labels=("collector",),
)

# Streams

_STREAM = ("job_id", "job_name", "region")
STREAM_BATCHES = _metric(
    "stoker_stream_batches_total",
    _COUNTER,
    _EXECUTOR,
    "Batches that the running attempt of a stream has committed.",
    labels=_STREAM,
)
STREAM_ROWS_READ = _metric(
    "stoker_stream_rows_read_total",
    _COUNTER,
    _EXECUTOR,
    "Rows that the running attempt of a stream has read.",
    labels=_STREAM,
)
STREAM_ROWS_WRITTEN = _metric(
    "stoker_stream_rows_written_total",
    _COUNTER,
    _EXECUTOR,
    "Rows that the running attempt of a stream has written; missing if its sink does not count.",
    labels=_STREAM,
)
STREAM_BATCH_DURATION = _metric(
    "stoker_stream_batch_duration_seconds",
    _HISTOGRAM,
    _EXECUTOR,
    "Time of a whole batch.",
    unit=_SECONDS,
    labels=_STREAM,
    bounds=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
STREAM_PHASES = _metric(
    "stoker_stream_phase_seconds_total",
    _COUNTER,
    _EXECUTOR,
    "Time that batches spent in each phase, by Spark's name of the phase.",
    unit=_SECONDS,
    labels=(*_STREAM, "phase"),
)
STREAM_INPUT_RATE = _metric(
    "stoker_stream_input_rows_per_second",
    _GAUGE,
    _EXECUTOR,
    "Rows a second that arrived for the last batch.",
    labels=_STREAM,
)
STREAM_PROCESSING_RATE = _metric(
    "stoker_stream_processed_rows_per_second",
    _GAUGE,
    _EXECUTOR,
    "Rows a second that the last batch processed.",
    labels=_STREAM,
)
STREAM_WATERMARK = _metric(
    "stoker_stream_watermark_timestamp_seconds",
    _GAUGE,
    _EXECUTOR,
    "Watermark of the event time, in seconds since 1970.",
    unit=_SECONDS,
    labels=_STREAM,
)
STREAM_CHECKPOINT = _metric(
    "stoker_stream_checkpoint_timestamp_seconds",
    _GAUGE,
    _EXECUTOR,
    "When the last batch was committed, which is the last checkpoint, in seconds since 1970. A "
    "stream without new rows commits nothing.",
    unit=_SECONDS,
    labels=_STREAM,
)
STREAM_STATE_ROWS = _metric(
    "stoker_stream_state_rows",
    _GAUGE,
    _EXECUTOR,
    "Rows in the state of the stream.",
    labels=_STREAM,
)
STREAM_STATE_BYTES = _metric(
    "stoker_stream_state_bytes",
    _GAUGE,
    _EXECUTOR,
    "Memory that Spark uses for the state of the stream.",
    unit=_BYTES,
    labels=_STREAM,
)
STREAM_BACKLOG = _metric(
    "stoker_stream_backlog_offsets",
    _GAUGE,
    _EXECUTOR,
    "Positions between what the last batch has read and the newest that the source knew of, in the "
    "unit of the source (Kafka: records). Missing if a source does not tell its newest position.",
    labels=_STREAM,
)
