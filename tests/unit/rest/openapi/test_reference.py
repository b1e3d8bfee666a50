"""The reference page of the REST API is the one that would be generated now."""

from pathlib import Path

from stoker.rest.openapi.reference import reference_page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "rest.md"


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference_page(), (
        "run: python -m stoker.rest.openapi.reference " + str(PAGE)
    )
