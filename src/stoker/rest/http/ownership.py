"""A caller with the role submit sees and changes its own jobs only.

Every route about one job names the job in its path, so this is checked once, for the target of a
request, before its handler is called. Lists show such a caller its own jobs (`only_own`).
"""

from stoker.core.errors import JobNotFound, JobQuarantined, StokerError
from stoker.core.ids import JobId, is_hex_id
from stoker.rest.http.access import Requester
from stoker.rest.http.errors import ErrorAnswer, answer_to
from stoker.rest.http.routing import Target
from stoker.rest.job_list.snapshots import FindDispatcher

JOB_PARAMETERS = ("jobid", "applicationid")
"""Parameters of paths that name a job; each job is its own application."""


async def find_owner_refusal(
    caller: Requester, target: Target, find_dispatcher: FindDispatcher
) -> ErrorAnswer | None:
    """The answer to a request about another owner's job, or None."""
    job_id = next(
        (target.arguments[each] for each in JOB_PARAMETERS if each in target.arguments), ""
    )
    if caller.only_own is None or not is_hex_id(job_id.lower()):
        return None
    try:
        dispatcher = await find_dispatcher()
        owner = await dispatcher.job_owner(JobId(job_id.lower()))
    except JobNotFound:
        return None
    except JobQuarantined:
        owner = ""
    except StokerError as error:
        return answer_to(error) or ErrorAnswer(status=500, messages=["the owner is not known"])
    if owner == caller.only_own:
        return None
    return ErrorAnswer(
        status=403,
        messages=[
            f"job {job_id} belongs to {owner or 'an unknown owner'}; the {caller.credential} "
            f"{caller.name} has the role {caller.role}, with which one sees and changes one's own "
            "jobs"
        ],
    )
