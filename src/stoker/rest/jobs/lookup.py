"""Find the job and the vertex that a request names."""

from dataclasses import dataclass

from stoker.core.errors import NotFound, StokerError
from stoker.core.ids import JobId, vertex_hex_id
from stoker.core.results import AttemptDetails, JobDetails, PlanVertex, RegionDetails
from stoker.gateways.dispatcher import DispatcherGateway
from stoker.rest.programs.parts import with_parts
from stoker.rest.requests.parameters import parse_job_id, parse_vertex_id
from stoker.rest.services import RestServices
from stoker.security.redaction import secret_values


async def load_job(services: RestServices, jobid: str) -> JobDetails:
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    return await dispatcher.job_details(job_id)


async def check_job_exists(services: RestServices, jobid: str) -> None:
    """Raise JobNotFound unless the dispatcher knows the job."""
    job_id = parse_job_id(jobid)
    dispatcher = await services.dispatcher()
    await dispatcher.job_status(job_id)


async def load_secret_values(dispatcher: DispatcherGateway, job_id: JobId) -> list[str]:
    """Values to be masked in texts about a job; none if the job is not known any more."""
    try:
        job = await dispatcher.job_details(job_id)
    except StokerError:
        return []
    return secret_values(job.configuration | job.parameters)


async def load_vertex(services: RestServices, jobid: str, vertexid: str) -> "FoundVertex":
    vertex_id = parse_vertex_id(vertexid)
    return find_vertex(await load_job(services, jobid), vertex_id)


@dataclass(frozen=True, kw_only=True)
class FoundVertex:
    """A vertex of a job and the regions that run it. Each region is one subtask of the vertex."""

    job: JobDetails
    vertex: PlanVertex
    regions: tuple[RegionDetails, ...]

    @property
    def id(self) -> str:
        return vertex_hex_id(self.job.job_id, self.vertex.name)

    def region(self, subtask: int) -> RegionDetails:
        if not 0 <= subtask < len(self.regions):
            raise NotFound(
                f"vertex {self.id} has no subtask {subtask}; it has {len(self.regions)}, from 0 on"
            )
        return self.regions[subtask]

    def attempt(self, subtask: int, number: int) -> AttemptDetails:
        region = self.region(subtask)
        for attempt in (region.current, *region.former):
            if attempt.number == number:
                return attempt
        raise NotFound(f"subtask {subtask} of vertex {self.id} has no attempt {number}")


def find_vertex(job: JobDetails, vertex_id: str) -> FoundVertex:
    job = with_parts(job)
    for vertex in job.plan:
        if vertex_hex_id(job.job_id, vertex.name) == vertex_id:
            regions = tuple(region for region in job.regions if vertex.name in region.vertices)
            return FoundVertex(job=job, vertex=vertex, regions=regions)
    raise NotFound(f"job {job.job_id} has no vertex {vertex_id}; GET /jobs/:id lists its vertices")
