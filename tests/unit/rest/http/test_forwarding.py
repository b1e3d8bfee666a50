"""How a standby words the failure of the master to which it forwards."""

import httpx
import pytest

from stoker.rest.http.forwarding import describe_failure


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("All connection attempts failed"), "refuses connections"),
        (httpx.ConnectError("certificate expired"), "cannot be reached (certificate expired)"),
        (httpx.ConnectTimeout(""), "does not answer in time"),
        (httpx.ReadError(""), "closed the connection before it had answered"),
        (
            httpx.RemoteProtocolError("Server disconnected without sending a response."),
            "closed the connection before it had answered",
        ),
    ],
)
def test_a_failure_is_told_in_words_and_not_as_a_python_exception(
    error: httpx.TransportError, words: str
) -> None:
    assert describe_failure(error) == words
