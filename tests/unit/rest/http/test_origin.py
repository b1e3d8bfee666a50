"""Which web pages may use the server."""

import pytest

from stoker.core.errors import InvalidOption
from stoker.rest.http.origin import check_origins, cors_headers, find_origin_refusal
from stoker.rest.options import RestOptions
from stoker.testing.rest import Master

PAGE = "https://page.example"


@pytest.mark.parametrize("allowed", ["*", "https://page.example, *"])
async def test_every_page_is_allowed_only_where_tokens_are_asked_for(allowed: str) -> None:
    options = RestOptions(bind_port="0", allow_origin=allowed)
    with pytest.raises(InvalidOption, match=r"security\.rest\.tokens"):
        async with Master(options=options).serving():
            pass
    check_origins(options, authenticated=True)


def test_a_star_in_a_name_allows_nobody_else() -> None:
    options = RestOptions(allow_origin=f"{PAGE},https://*.example")
    check_origins(options, authenticated=False)
    assert (b"access-control-allow-origin", PAGE.encode()) in cors_headers(PAGE, options)
    assert cors_headers("https://evil.example", options) == []


@pytest.mark.parametrize(
    ("origin", "site", "allowed", "is_refused"),
    [
        (None, None, "", False),
        (None, "none", "", False),
        (None, "same-origin", "", False),
        (None, "cross-site", "", True),
        (None, "same-site", "", True),
        (None, "nonsense", "", True),
        (None, "cross-site", PAGE, True),
        (None, "cross-site", "*", False),
        (PAGE, "cross-site", PAGE, False),
        (PAGE, "cross-site", "", True),
    ],
)
def test_a_browser_tells_where_a_request_comes_from(
    origin: str | None, site: str | None, allowed: str, is_refused: bool
) -> None:
    options = RestOptions(allow_origin=allowed)
    reason = find_origin_refusal("127.0.0.1:8081", origin, site, options)
    assert (reason is not None) is is_refused
