"""Field names on the wire."""

import msgspec
import pytest

from stoker.api import cluster, jobs, operations
from stoker.api.shape import Answer, Errors


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (operations.FailureCause, {"class", "stack-trace", "serialized-throwable"}),
        (jobs.JobSubmitted, {"jobUrl", "jobId", "repeated", "continuesFrom"}),
        (jobs.ResultStatus, {"id"}),
        (Errors, {"errors"}),
    ],
)
def test_fields_have_their_wire_names(kind: type[Answer], names: set[str]) -> None:
    assert {field.encode_name for field in msgspec.structs.fields(kind)} == names


def test_an_absent_field_is_not_written() -> None:
    answer = jobs.ExecutionResultAnswer(status=jobs.ResultStatus(id="IN_PROGRESS"))
    assert msgspec.json.encode(answer) == b'{"status":{"id":"IN_PROGRESS"}}'


def test_an_older_client_ignores_a_field_of_a_newer_server() -> None:
    body = b'{"jobs": [], "pages": 3}'
    assert msgspec.json.decode(body, type=jobs.JobsOverview).jobs == []


def test_a_task_manager_with_details_has_all_fields_of_the_short_form() -> None:
    def names(kind: type[Answer]) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(kind)}

    assert names(cluster.TaskManagerAnswer) > names(cluster.TaskManager)
