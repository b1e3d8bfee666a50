"""Requests about features of Flink that Spark does not have.

Flink's clients and its dashboard send them anyway. Each gets an empty answer of the right shape, or
the refusal that Flink sends when the feature is switched off.
"""

from stoker.api.flink import BackPressure, DataSets, FlameGraph
from stoker.api.metrics import Metric
from stoker.api.shape import Nothing
from stoker.core.errors import NotFound, Unavailable
from stoker.rest.http.routing import delete, get
from stoker.rest.jobs.aggregation import parse_names
from stoker.rest.jobs.lookup import check_job_exists, load_vertex
from stoker.rest.jobs.metrics import MetricNames
from stoker.rest.requests.operations import OperationKey, parse_trigger_id
from stoker.rest.requests.parameters import JobIdText, VertexIdText, parse_hex_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission

_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"
NO_RESCALES = (
    "there is no history of rescales: a job's parallelism is part of its configuration, and Spark "
    "partitions the work of every query on its own"
)


@get(f"{_VERTEX}/backpressure", needs=Permission.QUERY, summary="Back pressure of a vertex")
async def back_pressure(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> BackPressure:
    await load_vertex(services, jobid, vertexid)
    return BackPressure()


@get(f"{_VERTEX}/flamegraph", needs=Permission.QUERY, summary="Flame graph of a vertex")
async def flame_graph(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices
) -> FlameGraph:
    await load_vertex(services, jobid, vertexid)
    return FlameGraph()


@get(
    f"{_VERTEX}/jm-operator-metrics",
    needs=Permission.QUERY,
    summary="Metrics of the operator coordinators of a vertex",
)
async def operator_metrics(
    jobid: JobIdText, vertexid: VertexIdText, services: RestServices, names: MetricNames = None
) -> list[Metric]:
    parse_names(names)
    await load_vertex(services, jobid, vertexid)
    return []


@get("/datasets", needs=Permission.READ, summary="Data sets cached for later jobs")
async def data_sets() -> DataSets:
    return DataSets()


@delete(
    "/datasets/{datasetid}",
    needs=Permission.OPERATE,
    status=202,
    summary="Delete a cached data set",
)
async def delete_data_set(datasetid: str) -> Nothing:
    parse_hex_id(datasetid, "a data set id")
    raise NotFound(f"no data set {datasetid}: Spark keeps none for later jobs")


@get(
    "/datasets/delete/{triggerid}",
    needs=Permission.READ,
    summary="Status of the deletion of a data set",
)
async def data_set_deletion(triggerid: str, services: RestServices) -> Nothing:
    key = OperationKey(kind="data set", trigger_id=parse_trigger_id(triggerid))
    services.operations.status(key)
    return Nothing()


@get(
    *[
        "/jobs/{jobid}/rescales/config",
        "/jobs/{jobid}/rescales/history",
        "/jobs/{jobid}/rescales/overview",
        "/jobs/{jobid}/rescales/summary",
    ],
    needs=Permission.QUERY,
    summary="Earlier rescales of a job",
)
async def rescales(jobid: JobIdText, services: RestServices) -> Nothing:
    await check_job_exists(services, jobid)
    raise NotFound(NO_RESCALES)


@get(
    "/jobs/{jobid}/rescales/details/{rescaleuuid}",
    needs=Permission.QUERY,
    summary="One earlier rescale of a job",
)
async def rescale_details(jobid: JobIdText, rescaleuuid: str, services: RestServices) -> Nothing:
    await check_job_exists(services, jobid)
    raise NotFound(f"rescale {rescaleuuid} is unknown: {NO_RESCALES}")


@get(
    *["/jobmanager/profiler", "/taskmanagers/{taskmanagerid}/profiler"],
    needs=Permission.READ,
    summary="Profiles of a process",
)
async def profiler() -> Nothing:
    raise Unavailable("the profiler is switched off; a thread dump shows what a process does")


ABSENT_HANDLERS = (
    back_pressure,
    flame_graph,
    operator_metrics,
    data_sets,
    delete_data_set,
    data_set_deletion,
    rescales,
    rescale_details,
    profiler,
)
