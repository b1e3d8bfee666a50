"""Requests that only Flink's dashboard and its proxies send. Each has an equivalent in the API.

Flink can run every job in a master of its own; here the leading master runs them all, so the
answers about "the job's master" are those about this master.
"""

from stoker.api.cluster import ConfigurationEntry, LogUrl, PythonEnvironment
from stoker.api.shape import Nothing
from stoker.core.checkpoints import SavepointRequest
from stoker.rest.control.processes import configuration_entries, python_environment
from stoker.rest.http.routing import get
from stoker.rest.jobs.lookup import check_job_exists
from stoker.rest.requests.parameters import JobIdText, TaskManagerIdText, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission


@get(
    "/jobs/{jobid}/yarn-cancel",
    needs=Permission.CONTROL,
    status=202,
    summary="Cancel a job with a GET request",
)
async def cancel_by_get(jobid: JobIdText, services: RestServices) -> Nothing:
    """Some proxies forward only GET, so Flink's dashboard cancels jobs in this way.

    A page of another site could make a browser send it; the middleware refuses such requests.
    """
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.cancel_job(job_id)
    return Nothing()


@get(
    "/jobs/{jobid}/yarn-stop",
    needs=Permission.CONTROL,
    status=202,
    summary="Stop a job with a GET request",
)
async def stop_by_get(jobid: JobIdText, services: RestServices) -> Nothing:
    """The savepoint goes to the configured directory."""
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.trigger_savepoint(job_id, services.ids.nonce(), SavepointRequest(stop=True))
    return Nothing()


@get(
    "/jobs/{jobid}/jobmanager/config",
    needs=Permission.QUERY,
    summary="Configuration of the job's master",
)
async def job_master_config(jobid: JobIdText, services: RestServices) -> list[ConfigurationEntry]:
    await check_job_exists(services, jobid)
    return configuration_entries(services.configuration)


@get(
    "/jobs/{jobid}/jobmanager/environment",
    needs=Permission.QUERY,
    summary="Python environment of the job's master",
)
async def job_master_environment(jobid: JobIdText, services: RestServices) -> PythonEnvironment:
    await check_job_exists(services, jobid)
    return python_environment()


@get(
    "/jobs/{jobid}/jobmanager/log-url",
    needs=Permission.QUERY,
    summary="URL of the log of the job's master",
)
async def job_master_log_url(jobid: JobIdText, services: RestServices) -> LogUrl:
    await check_job_exists(services, jobid)
    return LogUrl(url=f"{services.leader_url() or ''}/jobmanager/log")


@get(
    "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url",
    needs=Permission.QUERY,
    summary="URL of the log of a task executor",
)
async def job_executor_log_url(
    jobid: JobIdText, taskmanagerid: TaskManagerIdText, services: RestServices
) -> LogUrl:
    await check_job_exists(services, jobid)
    return LogUrl(url=f"{services.leader_url() or ''}/taskmanagers/{taskmanagerid}/log")


DASHBOARD_HANDLERS = (
    cancel_by_get,
    stop_by_get,
    job_master_config,
    job_master_environment,
    job_master_log_url,
    job_executor_log_url,
)
