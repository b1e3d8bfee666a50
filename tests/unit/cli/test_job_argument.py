"""Job arguments: which job a name or an id prefix means, and how the shell completes it."""

import asyncio
import json

import click
import msgspec
import pytest
from click.shell_completion import ShellComplete

from stoker.api.jobs import JobOverview, TaskCounts
from stoker.cli.main import cli
from stoker.client.job_names import choose_job
from stoker.core.errors import InvalidInput, NotFound
from stoker.core.graph import JobType
from stoker.core.ids import JobId
from stoker.core.states import JobStatus
from stoker.testing.sample_jobs import RUNNING
from unit.cli.conftest import Stoker


def job(
    digit: str, name: str, state: JobStatus = JobStatus.RUNNING, *, start: int = 0
) -> JobOverview:
    return JobOverview(
        jid=JobId(digit * 32),
        name=name,
        job_type=JobType.BATCH,
        start_time=start,
        end_time=-1,
        duration=0,
        state=state,
        last_modification=0,
        tasks=TaskCounts(),
    )


JOBS = [
    job("a", "nightly"),
    job("b", "nightly", JobStatus.FINISHED),
    job("c", "clicks"),
    job("d", "clicks"),
    job("e", "abc"),
]


def test_a_prefix_of_an_id_is_enough() -> None:
    assert choose_job(JOBS, "Bb") == "b" * 32


def test_a_name_means_the_job_that_has_not_ended() -> None:
    assert choose_job(JOBS, "nightly") == "a" * 32


def test_a_name_of_several_ended_jobs_means_the_newest_of_them() -> None:
    ended = [
        job("1", "loads", JobStatus.FINISHED, start=10),
        job("2", "loads", JobStatus.FAILED, start=30),
        job("3", "loads", JobStatus.FINISHED, start=20),
    ]
    assert choose_job(ended, "loads") == "2" * 32
    assert choose_job([*ended, job("4", "loads")], "loads") == "4" * 32


def test_a_beginning_that_several_ids_share_is_refused_even_if_all_have_ended() -> None:
    ended = [
        job("1", "one", JobStatus.FINISHED),
        msgspec.structs.replace(job("2", "two", JobStatus.FINISHED), jid=JobId("12" * 16)),
    ]
    with pytest.raises(InvalidInput, match="several ids begin with 1"):
        choose_job(ended, "1")


def test_a_name_takes_precedence_over_an_id_prefix() -> None:
    assert choose_job([*JOBS, job("a", "a" * 3)], "abc") == "e" * 32


def test_an_ambiguous_name_is_refused_with_the_running_jobs() -> None:
    with pytest.raises(InvalidInput, match="several jobs named clicks have not ended") as caught:
        choose_job(JOBS, "clicks")
    assert "c" * 32 in caught.value.message
    assert "d" * 32 in caught.value.message


def test_a_mistyped_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(NotFound, match=r"did you mean 'nightly'\?"):
        choose_job(JOBS, "nihgtly")
    with pytest.raises(NotFound, match="stoker list --all"):
        choose_job(JOBS, "")


async def test_the_shell_completes_names_of_jobs_that_run(served) -> None:
    def complete(*words: str) -> list[str]:
        arguments = ["-m", served.url, *words[:-1]]
        completion = ShellComplete(cli, {}, "stoker", "_STOKER_COMPLETE")
        return [item.value for item in completion.get_completions(arguments, words[-1])]

    name = served.master.dispatcher.jobs[RUNNING].name
    assert name in await asyncio.to_thread(complete, "status", name[:2])
    assert RUNNING in await asyncio.to_thread(complete, "cancel", RUNNING[:5])
    assert await asyncio.to_thread(complete, "status", "zzz") == []
    assert name in await asyncio.to_thread(complete, "savepoint", "trigger", name[:2])
    assert await asyncio.to_thread(complete, "savepoint", "lits", "x") == []
    assert "trigger" in await asyncio.to_thread(complete, "checkpoint", "tr")


def test_each_supported_shell_has_a_completion_script(stoker) -> None:
    for shell in ("bash", "zsh", "fish"):
        result = stoker("completion", shell)
        assert result.exit_code == 0
        assert "_STOKER_COMPLETE" in result.stdout
    assert "'tcsh' is not one of" in click.unstyle(stoker("completion", "tcsh").stderr)


def test_the_completion_script_is_printed_as_json(stoker: Stoker) -> None:
    plain = stoker("completion", "bash").stdout
    for arguments in (("completion", "bash", "--json"), ("--json", "completion", "bash")):
        told = json.loads(stoker(*arguments).stdout)
        assert told["shell"] == "bash"
        assert told["script"].strip() == plain.strip()
