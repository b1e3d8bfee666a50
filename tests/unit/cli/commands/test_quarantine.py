"""`stoker quarantine`, and how other commands report jobs that cannot be loaded."""

import json

from stoker.core.states import JobStatus
from stoker.testing.sample_jobs import BROKEN, RUNNING, UNKNOWN


async def test_an_empty_quarantine_is_reported_and_list_does_not_mention_it(served) -> None:
    assert "No job is in quarantine." in (await served("quarantine", "list")).stdout
    assert json.loads((await served("quarantine", "list", "--json")).stdout) == []
    assert "quarantine" not in (await served("list")).stdout


async def test_quarantined_jobs_are_listed_with_reason_and_path(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    output = (await served("quarantine", "list")).stdout
    assert BROKEN in output
    assert "its graph cannot be understood" in output
    assert f"jobs/{BROKEN}/graph/1.json" in output
    [job] = json.loads((await served("--json", "quarantine", "list")).stdout)
    assert (job["job_id"], job["cancel_wanted"]) == (BROKEN, False)


async def test_list_mentions_quarantined_jobs_in_one_line_but_not_in_json(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    assert (await served("list")).stdout.splitlines()[-1] == (
        "In quarantine: 1 job that cannot be loaded (stoker quarantine list)."
    )
    assert [job["jid"] for job in json.loads((await served("list", "--json")).stdout)] == [RUNNING]


async def test_a_retry_says_why_the_job_still_cannot_be_loaded(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    result = await served("quarantine", "retry", BROKEN[:6])
    assert result.exit_code == 1
    assert "its graph cannot be understood" in result.stderr


async def test_a_retry_that_succeeds_names_the_next_command(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    served.master.dispatcher.repaired.add(BROKEN)
    result = await served("quarantine", "retry", BROKEN)
    assert result.exit_code == 0
    assert f"stoker status {BROKEN}" in result.stdout
    assert served.master.dispatcher.jobs[BROKEN].status is JobStatus.RUNNING


async def test_a_job_can_be_dropped_by_a_prefix_of_its_id(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    result = await served("quarantine", "drop", BROKEN[:4], "--json")
    assert json.loads(result.stdout) == {"job_id": BROKEN, "done": "dropped"}
    assert served.master.dispatcher.jobs[BROKEN].status is JobStatus.FAILED


async def test_an_unknown_or_ambiguous_job_is_refused(served) -> None:
    for digit in "67":
        served.master.dispatcher.put_into_quarantine(BROKEN[:-1] + digit)
    for text, told in (
        (UNKNOWN, "quarantine"),
        ("9", "stoker quarantine list"),
        (BROKEN[:5], "several jobs"),
    ):
        result = await served("quarantine", "drop", text)
        assert result.exit_code == 1
        assert told in result.stderr
    assert len(served.master.dispatcher.quarantine) == 2


async def test_the_status_of_a_quarantined_job_says_what_to_do(served) -> None:
    served.master.dispatcher.put_into_quarantine(BROKEN)
    result = await served("status", BROKEN)
    assert result.exit_code == 1
    assert f"stoker quarantine drop {BROKEN}" in result.stderr
