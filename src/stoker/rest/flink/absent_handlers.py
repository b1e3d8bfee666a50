"""Requests for what Spark has no notion of: answered as Flink does where it is switched off."""

from stoker.api.flink import DataSets
from stoker.api.shape import Nothing
from stoker.core.errors import InvalidInput, NotFound, Unavailable
from stoker.core.ids import is_hex_id
from stoker.rest.http.routing import delete, get
from stoker.rest.requests.operations import OperationKey, parse_trigger_id
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices

NO_RESCALES = (
    "there is no history of rescales: a job's parallelism is changed by its configuration, and "
    "Spark divides the work anew with every query"
)


async def _check_job(services: RestServices, jobid: str) -> None:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.job_status(job_id)


@get("/datasets", summary="Data sets kept for later jobs, which Spark has not")
async def data_sets() -> DataSets:
    return DataSets()


@delete("/datasets/{datasetid}", status=202, summary="Forget a data set")
async def delete_data_set(datasetid: str) -> Nothing:
    if not is_hex_id(datasetid.lower()):
        raise InvalidInput(f"a data set id is 32 hexadecimal digits, found {datasetid!r}")
    raise NotFound(f"no data set {datasetid}: Spark keeps none for later jobs")


@get("/datasets/delete/{triggerid}", summary="Whether a data set is forgotten")
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
    summary="Former rescales, of which no history is kept",
)
async def rescales(jobid: JobIdText, services: RestServices) -> Nothing:
    await _check_job(services, jobid)
    raise NotFound(NO_RESCALES)


@get("/jobs/{jobid}/rescales/details/{rescaleuuid}", summary="One former rescale")
async def rescale_details(jobid: JobIdText, rescaleuuid: str, services: RestServices) -> Nothing:
    await _check_job(services, jobid)
    raise NotFound(f"nothing is known of rescale {rescaleuuid}: {NO_RESCALES}")


@get(
    *["/jobmanager/profiler", "/taskmanagers/{taskmanagerid}/profiler"],
    summary="Profiles of processes, which are switched off",
)
async def profiler() -> Nothing:
    raise Unavailable("the profiler is switched off; a thread dump shows what a process does")


ABSENT_HANDLERS = (
    data_sets,
    delete_data_set,
    data_set_deletion,
    rescales,
    rescale_details,
    profiler,
)
