"""The page on which the API can be read and tried."""

from typing import Any

from litestar import Request, Response, get

from stoker.web.pages import PAGES, content_of


@get(list(PAGES), include_in_schema=False)
async def page(request: Request[Any, Any, Any]) -> Response[bytes]:
    found = PAGES[request.scope["path"].rstrip("/") or "/"]
    return Response(content_of(found.file), media_type=found.media_type)


PAGE_HANDLERS = (page,)
