"""The page on which the API can be read and tried."""

from stoker.rest.http.asgi import Request, Response
from stoker.rest.http.routing import get
from stoker.web.pages import PAGES, content_of


@get(*PAGES)
async def page(request: Request) -> Response:
    found = PAGES[request.path.rstrip("/") or "/"]
    return Response(content_of(found.file), media_type=found.media_type)


PAGE_HANDLERS = (page,)
