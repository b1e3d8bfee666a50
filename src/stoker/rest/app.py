"""The REST API as an ASGI app."""

from functools import cache

from litestar import Litestar, MediaType, Response, get
from litestar.di import Provide

from stoker.rest.absent_handlers import ABSENT_HANDLERS
from stoker.rest.application_handlers import APPLICATION_HANDLERS
from stoker.rest.border import Border
from stoker.rest.checkpoint_handlers import CHECKPOINT_HANDLERS
from stoker.rest.cluster_handlers import CLUSTER_HANDLERS
from stoker.rest.error_answers import error_handlers
from stoker.rest.event_handlers import EVENT_HANDLERS
from stoker.rest.job_figure_handlers import JOB_FIGURE_HANDLERS
from stoker.rest.job_handlers import JOB_HANDLERS
from stoker.rest.log_handlers import LOG_HANDLERS
from stoker.rest.page_handlers import PAGE_HANDLERS
from stoker.rest.process_handlers import PROCESS_HANDLERS
from stoker.rest.program_handlers import PROGRAM_HANDLERS
from stoker.rest.quarantine_handlers import QUARANTINE_HANDLERS
from stoker.rest.queue_handlers import QUEUE_HANDLERS
from stoker.rest.resource_handlers import RESOURCE_HANDLERS
from stoker.rest.savepoint_handlers import SAVEPOINT_HANDLERS
from stoker.rest.services import RestServices
from stoker.rest.submission import submit
from stoker.rest.vertex_handlers import VERTEX_HANDLERS

HANDLERS = (
    submit,
    *JOB_HANDLERS,
    *LOG_HANDLERS,
    *JOB_FIGURE_HANDLERS,
    *CHECKPOINT_HANDLERS,
    *VERTEX_HANDLERS,
    *APPLICATION_HANDLERS,
    *PROGRAM_HANDLERS,
    *RESOURCE_HANDLERS,
    *QUARANTINE_HANDLERS,
    *QUEUE_HANDLERS,
    *SAVEPOINT_HANDLERS,
    *CLUSTER_HANDLERS,
    *PROCESS_HANDLERS,
    *EVENT_HANDLERS,
    *ABSENT_HANDLERS,
)


def build_app(services: RestServices) -> Border:
    """Fixed paths win over parameters; two handlers for one path are refused here."""

    def provide_services() -> RestServices:
        return services

    @cache
    def document() -> bytes:
        # The generator is large, and few ever ask for what it makes.
        from stoker.rest.document import openapi_document  # noqa: PLC0415

        return openapi_document(HANDLERS, services.version)

    @get("/openapi.json")
    async def openapi() -> Response[bytes]:
        return Response(document(), media_type=MediaType.JSON)

    app = Litestar(
        route_handlers=[*HANDLERS, *PAGE_HANDLERS, openapi],
        dependencies={"services": Provide(provide_services, sync_to_thread=False)},
        exception_handlers=error_handlers(lambda: services.ids.nonce()[:12]),
        openapi_config=None,
        logging_config=None,
    )
    return Border(app, services)
