"""The records that a cluster of release 0.1 stored, as values; neither values nor bytes may change.

The records belong to a batch job in the middle of its run, a streaming job whose cancellation was
just acknowledged, a SQL script and a program that have not started, and a job that failed.
"""

import hashlib

from stoker.core.graph import (
    Artifact,
    ArtifactKind,
    EngineKind,
    Environment,
    FormatRead,
    FormatWrite,
    JobGraph,
    JobType,
    Program,
    PythonFunction,
    RestartPolicy,
    Sink,
    Source,
    Sql,
    SqlScript,
    Transform,
)
from stoker.core.ids import (
    AllocationId,
    AttemptId,
    BlobKey,
    InstanceId,
    JobId,
    RegionId,
    ResourceId,
    SessionId,
)
from stoker.core.manifests import Manifest, Publication, ResultFile
from stoker.core.replacements import Replacement, ReplacementKind, ReplacementPhase
from stoker.core.results import (
    AttemptDetails,
    AttemptOutcome,
    Failure,
    FailureRecord,
    JobDetails,
    JobResult,
    PlanVertex,
    Progress,
    RegionDetails,
)
from stoker.core.rows import Column, QueryResult
from stoker.core.states import ApplicationStatus, ExecutionState, JobStatus
from stoker.core.values import FencingToken, Value
from stoker.engine.region.materialize import _ManifestRecord
from stoker.events.event import EventId, LoggedEvent
from stoker.events.layout import EventIndex, EventSegment, RecentEvents, SegmentContent
from stoker.events.settings import NotedSettings
from stoker.ha import keys
from stoker.ha.election import Candidacy
from stoker.ha.masters import MasterRecord
from stoker.ha.publication import LeaderAddress
from stoker.ha.stores.attempts import AttemptRecord
from stoker.ha.stores.cancellations import CancellationRecord, JobRequest
from stoker.ha.stores.job_graphs import IdempotencyRecord, JobRecord, graph_digest
from stoker.ha.stores.job_results import ResultRecord
from stoker.ha.stores.query_results import _QueryResultRecord
from stoker.ha.stores.replacements import ReplacementRecord
from stoker.ha.stores.shutdowns import ShutdownRecord, ShutdownStage
from stoker.ha.stores.storage_records import _OutcomeRecord, _PublicationRecord

BATCH = JobId("1" * 32)
STREAM = JobId("2" * 32)
SCRIPT = JobId("3" * 32)
FAILED = JobId("4" * 32)
PROGRAM = JobId("5" * 32)
NOW = 1_790_000_000_000
MASTER = ResourceId("master-1")
EXECUTOR = ResourceId("task-executor 1/ä")
INSTANCE = InstanceId("e" * 32)
LIBRARY = b"def double(x):\n    return 2 * x\n"
LIBRARY_SHA256 = hashlib.sha256(LIBRARY).hexdigest()
PROGRAM_TEXT = b"import sys\nprint(sys.argv)\n"
PROGRAM_SHA256 = hashlib.sha256(PROGRAM_TEXT).hexdigest()
DONE_REGION = RegionId("cleaned")
SINK_REGION = RegionId("report")
DONE_ATTEMPT = AttemptId("a" * 32)

BATCH_GRAPH = JobGraph(
    job_id=BATCH,
    name="orders per hour · täglich",
    vertices=(
        Source(
            name="orders",
            read=FormatRead(
                format="json",
                path="/in",
                schema="id LONG, at TIMESTAMP",
                options={"multiLine": "true"},
            ),
        ),
        Source(name="days", read=Sql(query="SELECT explode(sequence(1, 7)) AS day")),
        Source(
            name="rates",
            read=PythonFunction(name="rates", payload=b"\x80\x05\xff", parameters=("spark",)),
        ),
        Transform(
            name="cleaned",
            inputs=("orders", "days"),
            compute=Sql(query="SELECT * FROM orders CROSS JOIN days"),
            materialized=True,
        ),
        Transform(
            name="priced",
            inputs=("cleaned", "rates"),
            compute=PythonFunction(
                name="price", payload=b"\x80\x05\x00", parameters=("cleaned", "rates")
            ),
        ),
        Sink(
            name="report",
            input="priced",
            write=FormatWrite(
                format="parquet",
                path="/out",
                options={"compression": "snappy"},
                partition_by=("day",),
            ),
            mode="overwrite",
        ),
        Sink(name="call", input="cleaned", write=PythonFunction(name="call", payload=b"\x80\x05")),
    ),
    configuration={"spark.sql.shuffle.partitions": "4"},
    parameters={"day": "2026-11-01"},
    artifacts=(
        Artifact(
            name="double.py",
            kind=ArtifactKind.PYTHON,
            sha256=LIBRARY_SHA256,
            size=len(LIBRARY),
            key=BlobKey(LIBRARY_SHA256),
        ),
    ),
    environment=Environment(python="3.11", libraries={"pandas": "2.3.3"}),
    restart=RestartPolicy(strategy="fixed-delay", attempts=3, delay_seconds=2.0),
    idempotency_key="orders 2026-11-01",
)

STREAM_GRAPH = JobGraph(
    job_id=STREAM,
    name="clicks",
    vertices=(
        Source(name="clicks", read=FormatRead(format="rate"), streaming=True),
        Sink(
            name="totals",
            input="clicks",
            write=FormatWrite(format="delta", table="db.totals"),
            mode="append",
            trigger="10 seconds",
        ),
    ),
    job_type=JobType.STREAMING,
    configuration={"fake.seconds": "1e6"},
)

SCRIPT_GRAPH = JobGraph(
    job_id=SCRIPT,
    name="nightly",
    vertices=(SqlScript(name="script", statements=("CREATE TABLE t (a INT)", "SELECT 1")),),
)

PROGRAM_GRAPH = JobGraph(
    job_id=PROGRAM,
    name="estimate",
    vertices=(
        Program(
            name="program",
            script="estimate.py",
            arguments=("10", "--fast", "ä b"),
            environment={"DAY": "monday"},
            directory="/home/someone",
        ),
    ),
    artifacts=(
        Artifact(
            name="estimate.py",
            kind=ArtifactKind.FILE,
            sha256=PROGRAM_SHA256,
            size=len(PROGRAM_TEXT),
            key=BlobKey(PROGRAM_SHA256),
        ),
    ),
    engine=EngineKind.CLASSIC,
    engine_reason="a program has a driver of its own",
)

FAILURE = Failure(
    error="AnalysisException",
    message="no column amount",
    stack_trace="job.py:3 in priced",
    retriable=False,
    labels={"kind": "user"},
)

RESULT = JobResult(
    job_id=FAILED,
    name="broken",
    job_type=JobType.BATCH,
    status=JobStatus.FAILED,
    start=NOW,
    end=NOW + 5000,
    failure=FAILURE,
    tasks={ExecutionState.FAILED: 1, ExecutionState.FINISHED: 1},
)


def _attempt(number: int, state: ExecutionState) -> AttemptDetails:
    return AttemptDetails(
        attempt=AttemptId(f"{number:032x}"),
        number=number,
        state=state,
        task_executor=EXECUTOR,
        instance=INSTANCE,
        timestamps={ExecutionState.DEPLOYING: NOW + 10, state: NOW + 20},
        progress=Progress(
            tasks_total=4,
            tasks_done=3,
            rows_read=100,
            rows_written=40,
            bytes_read=999,
            bytes_written=7,
            batch_id=12,
            batches=13,
            rows_per_second=2.5,
            query_id="q",
            run_id="r",
        ),
    )


DETAILS = JobDetails(
    job_id=FAILED,
    name="broken",
    job_type=JobType.BATCH,
    status=JobStatus.FAILED,
    timestamps={JobStatus.INITIALIZING: NOW, JobStatus.FAILED: NOW + 5000},
    start=NOW,
    end=NOW + 5000,
    regions=(
        RegionDetails(
            id=RegionId("report"),
            vertices=("orders", "report"),
            streaming=False,
            current=_attempt(2, ExecutionState.FAILED),
            former=(_attempt(1, ExecutionState.CANCELED),),
        ),
    ),
    failures=(
        FailureRecord(
            failure=FAILURE,
            at=NOW + 4000,
            region=RegionId("report"),
            attempt=AttemptId(f"{2:032x}"),
            attempt_number=2,
            task_executor=EXECUTOR,
        ),
    ),
    waiting="for slots",
    plan=(PlanVertex(name="report", kind="sink", inputs=("orders",), description="parquet"),),
    configuration={"spark.x": "1"},
    parameters={"day": "2026-11-01"},
)


def _pointer(job_id: JobId) -> str:
    return f"{keys.graph_folder(job_id)}/{job_id[::-1]}.json"


def _record(graph: JobGraph) -> JobRecord:
    return JobRecord(
        job_id=graph.job_id,
        name=graph.name,
        pointer=_pointer(graph.job_id),
        digest=graph_digest(graph),
        nonce=graph.job_id[::-1],
        submitted_at=NOW,
        idempotency_key=graph.idempotency_key,
    )


GRAPHS = (BATCH_GRAPH, STREAM_GRAPH, SCRIPT_GRAPH, PROGRAM_GRAPH)
CANDIDACY = Candidacy(process=MASTER, nonce="c" * 32, session="session-1")
DETAILS_POINTER = f"{keys.details_folder(FAILED)}/{'d' * 32}.json"

REPLACEMENT = Replacement(
    job_id=FAILED,
    trigger_id="e" * 32,
    kind=ReplacementKind.UPGRADE,
    digest="f" * 64,
    new_id=JobId("8" * 32),
    back_id=JobId("9" * 32),
    directory="/saved",
    order="0123456789ab",
    began=NOW,
    changed=NOW,
    phase=ReplacementPhase.ROLLED_BACK,
    pointer=f"replacements/{FAILED}/{'e' * 32}/graph.json",
    savepoint="/saved/savepoint-1",
    origin="/retained/checkpoint-1",
    reason="it did not do",
)
SEGMENT = keys.event_segment(3, 1, "e" * 32)
OLD_EVENT = LoggedEvent(
    epoch=3,
    number=1,
    at=NOW,
    kind="job-submitted",
    text="submitted as a batch job, for queue default",
    job=BATCH,
    job_name="orders",
    owner="ana",
    data={"type": "BATCH", "queue": "default", "priority": 0, "again": False, "label": None},
)
NEW_EVENT = LoggedEvent(
    epoch=4, number=1, at=NOW + 10, kind="leader-changed", text="master-1 leads in epoch 4"
)

COORDINATOR: dict[str, Value] = {
    keys.RECENT_EVENTS: RecentEvents(events=(NEW_EVENT,), settled=NOW, nonce="f" * 32),
    keys.EVENT_INDEX: EventIndex(
        segments=(
            EventSegment(
                path=SEGMENT,
                first=OLD_EVENT.id,
                last=OLD_EVENT.id,
                events=1,
                size=300,
                since=NOW,
                until=NOW,
            ),
        ),
        forgotten=EventId(2, 40),
    ),
    keys.NOTED_SETTINGS: NotedSettings(
        tokens={"0a1b2c3d": "ana (submit)"}, configuration={"rest.port": "8081"}
    ),
    **{keys.job(graph.job_id): _record(graph) for graph in GRAPHS},
    keys.idempotency("orders 2026-11-01"): IdempotencyRecord(job_id=BATCH, nonce=BATCH[::-1]),
    keys.SHUTDOWN: ShutdownRecord(
        nonce="d" * 32, status=ApplicationStatus.SUCCEEDED, at=NOW, stage=ShutdownStage.OVER
    ),
    keys.replacement(FAILED, "e" * 32): ReplacementRecord(plan=REPLACEMENT),
    keys.cancellation(STREAM): CancellationRecord(
        job_id=STREAM, wish=JobRequest.CANCEL, at=NOW, nonce="b" * 32
    ),
    keys.result(FAILED): ResultRecord(
        result=RESULT,
        dirty=False,
        pointer=DETAILS_POINTER,
        nonce="d" * 32,
        graph_digest="0" * 64,
        idempotency_key="broken 1",
    ),
    keys.attempt(BATCH, DONE_REGION): AttemptRecord(
        job_id=BATCH,
        region=DONE_REGION,
        attempt=DONE_ATTEMPT,
        number=1,
        task_executor=EXECUTOR,
        instance=INSTANCE,
        address="grpc://127.0.0.1:6122/task_executor",
        allocation=AllocationId("f" * 32),
    ),
    keys.leader("dispatcher"): LeaderAddress(
        component="dispatcher",
        address="grpc://127.0.0.1:6123/dispatcher",
        token=FencingToken(epoch=7, session=SessionId("5" * 32)),
        process=MASTER,
    ),
    keys.ELECTION: CANDIDACY,
    keys.EPOCH: CANDIDACY,
    keys.master(MASTER): MasterRecord(resource_id=MASTER, address="grpc://127.0.0.1:6123"),
}

STORAGE: dict[str, Value | bytes] = {
    SEGMENT: SegmentContent(events=(OLD_EVENT,)),
    **{_pointer(graph.job_id): graph for graph in GRAPHS},
    keys.outcome(BATCH, DONE_REGION, DONE_ATTEMPT): _OutcomeRecord(
        outcome=AttemptOutcome(
            job_id=BATCH,
            region=DONE_REGION,
            attempt=DONE_ATTEMPT,
            state=ExecutionState.FINISHED,
            at=NOW + 100,
            progress=Progress(rows_written=40),
        )
    ),
    f"{keys.results_folder(BATCH)}/{keys.publication(SINK_REGION)}": _PublicationRecord(
        publication=Publication(
            manifest=Manifest(
                attempt=AttemptId("9" * 32),
                directory="file:///staged",
                files=(ResultFile(path="day=1/part-0.parquet", size=7, checksum="0a", rows=2),),
            ),
            target="file:///out",
            replaces=("day=1/part-former.parquet",),
        )
    ),
    f"{keys.results_folder(BATCH)}/{DONE_REGION}/manifest.json": _ManifestRecord(
        manifest=Manifest(
            attempt=DONE_ATTEMPT,
            directory="file:///materialized/cleaned",
            files=(ResultFile(path="part-0.parquet", size=9, checksum="0b", rows=40),),
        )
    ),
    DETAILS_POINTER: DETAILS,
    f"{keys.rows_of_attempt(SCRIPT, DONE_ATTEMPT)}/{keys.query_result(1)}": _QueryResultRecord(
        result=QueryResult(
            statement="SELECT id, tags FROM people",
            columns=(
                Column(name="id", type="decimal(10,2)"),
                Column(
                    name="tags",
                    type={"type": "array", "elementType": "string", "containsNull": True},
                ),
            ),
            pieces=(1,),
            truncated="only the first 1 rows are kept (sql.result.max-rows)",
        )
    ),
    f"{keys.rows_of_attempt(SCRIPT, DONE_ATTEMPT)}/{keys.query_rows(1, 0)}": (
        b'[["1.10",["a",null]]]'
    ),
    f"blobs/{BATCH}/{LIBRARY_SHA256}": LIBRARY,
    f"blobs/{PROGRAM}/{PROGRAM_SHA256}": PROGRAM_TEXT,
}
