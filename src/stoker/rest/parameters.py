"""Parsing what stands in paths and queries."""

from typing import Annotated

from litestar.di import NamedDependency
from litestar.params import PathParameter, SkipValidation

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId, is_hex_id
from stoker.core.states import JobStatus
from stoker.rest.services import RestServices

Services = NamedDependency[SkipValidation[RestServices]]

JobIdText = Annotated[str, PathParameter(description="32 hexadecimal digits that name a job")]


def parse_job_id(text: str) -> JobId:
    lowered = text.lower()
    if not is_hex_id(lowered):
        raise InvalidInput(f"a job id is 32 hexadecimal digits, found {text!r}")
    return JobId(lowered)


def parse_status(text: str) -> JobStatus:
    try:
        return JobStatus(text.upper())
    except ValueError:
        known = ", ".join(JobStatus)
        raise InvalidInput(f"known must be a state of a job ({known}), found {text!r}") from None
