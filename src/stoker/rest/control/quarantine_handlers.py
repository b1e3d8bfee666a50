"""Requests about quarantined jobs: accepted jobs that the dispatcher cannot load."""

from stoker.api.control import QuarantineAnswer, QuarantinedJobAnswer
from stoker.api.shape import Nothing
from stoker.gateways.dispatcher import QuarantinedJob
from stoker.rest.http.routing import delete, get, post
from stoker.rest.requests.parameters import JobIdText, parse_job_id
from stoker.rest.services import RestServices
from stoker.security.tokens import Permission


@get("/quarantine", needs=Permission.READ, summary="Accepted jobs that cannot be loaded, and why")
async def quarantined_jobs(services: RestServices) -> QuarantineAnswer:
    dispatcher = await services.dispatcher()
    return QuarantineAnswer(jobs=[_view(job) for job in await dispatcher.quarantined()])


@post(
    "/quarantine/{jobid}/retry",
    needs=Permission.OPERATE,
    status=202,
    summary="Load and start the job; 409 with the reason when it still cannot be loaded",
)
async def retry_quarantined(jobid: JobIdText, services: RestServices) -> Nothing:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.retry_quarantined(job_id)
    return Nothing()


@delete(
    "/quarantine/{jobid}",
    needs=Permission.OPERATE,
    status=202,
    summary="Give up the job: record it as FAILED and remove its files",
)
async def drop_quarantined(jobid: JobIdText, services: RestServices) -> Nothing:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.drop_quarantined(job_id)
    return Nothing()


def _view(job: QuarantinedJob) -> QuarantinedJobAnswer:
    return QuarantinedJobAnswer(
        job_id=job.job_id,
        reason=job.reason,
        since=job.since,
        pointer=job.pointer,
        cancel_wanted=job.cancel_wanted,
    )


QUARANTINE_HANDLERS = (quarantined_jobs, retry_quarantined, drop_quarantined)
