"""Requests about applications, which group jobs in Flink. Here every job is its own application."""

from stoker.api.cluster import ConfigurationEntry
from stoker.api.flink import ApplicationAnswer, ApplicationExceptions, Applications
from stoker.api.shape import Nothing
from stoker.core.ids import JobId
from stoker.core.results import JobDetails
from stoker.rest.control.process_views import configuration_entries
from stoker.rest.flink import application_views as views
from stoker.rest.http.routing import get, post
from stoker.rest.requests.parameters import parse_application_id
from stoker.rest.services import RestServices
from stoker.security.redaction import without_secrets

_APPLICATION = "/applications/{applicationid}"


async def _job(services: RestServices, application_id: JobId) -> JobDetails:
    dispatcher = await services.dispatcher()
    return await dispatcher.job_details(application_id)


@get("/applications/overview", summary="All applications")
async def overview_of_applications(services: RestServices) -> Applications:
    snapshot = await services.job_list_snapshot()
    return views.applications(snapshot.jobs.all_jobs(), services.clock())


@get(_APPLICATION, summary="One application with its job")
async def application(applicationid: str, services: RestServices) -> ApplicationAnswer:
    job = await _job(services, parse_application_id(applicationid))
    return views.application(job, services.clock())


@get(f"{_APPLICATION}/exceptions", summary="The failure that ended an application")
async def application_exceptions(
    applicationid: str, services: RestServices
) -> ApplicationExceptions:
    job = await _job(services, parse_application_id(applicationid))
    return views.application_exceptions(without_secrets(job))


@get(f"{_APPLICATION}/jobmanager/config", summary="Configuration of the master of an application")
async def application_config(
    applicationid: str, services: RestServices
) -> list[ConfigurationEntry]:
    await _job(services, parse_application_id(applicationid))
    return configuration_entries(services.configuration)


@post(f"{_APPLICATION}/cancel", status=202, summary="Cancel the job of an application")
async def cancel_application(applicationid: str, services: RestServices) -> Nothing:
    job_id = parse_application_id(applicationid)
    dispatcher = await services.dispatcher()
    await dispatcher.cancel_job(job_id)
    return Nothing()


APPLICATION_HANDLERS = (
    overview_of_applications,
    application,
    application_exceptions,
    application_config,
    cancel_application,
)
