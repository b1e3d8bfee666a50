"""The audit log of this master's machine."""

from typing import Annotated

from stoker.api.control import AuditAnswer
from stoker.core.errors import NotFound
from stoker.rest.http.routing import QueryParameter, get
from stoker.rest.services import RestServices
from stoker.security.audit import AuditQuery
from stoker.security.tokens import Permission

Lines = Annotated[int, QueryParameter(ge=1, le=10_000, description="most entries to return")]
CallerFilter = Annotated[str | None, QueryParameter(description="only entries of this caller")]
ObjectFilter = Annotated[
    str | None, QueryParameter(name="object", description="beginning of the object's id")
]


@get(
    "/audit",
    needs=Permission.OPERATE,
    summary="Changes and refusals on the machine of the master that is asked, newest first",
)
async def audit(
    services: RestServices,
    limit: Lines = 100,
    caller: CallerFilter = None,
    wanted: ObjectFilter = None,
) -> AuditAnswer:
    if services.audit is None:
        raise NotFound("this server keeps no audit log")
    query = AuditQuery(limit=limit, caller=caller, object=wanted)
    return AuditAnswer(entries=await services.audit.read(query))


AUDIT_HANDLERS = (audit,)
