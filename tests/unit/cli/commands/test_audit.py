"""`stoker audit`."""

import json
from pathlib import Path

import httpx

from stoker.security.audit import AuditLog, audit_time
from stoker.security.audit_entries import AuditEntry
from stoker.security.options import AuditOptions
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import FINISHED, RUNNING
from unit.cli.conftest import ServedMaster


async def test_changes_are_shown_the_newest_last(stoker, tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit", AuditOptions())
    async with Master(audit=audit, local_user="ana").serving() as url:
        served = ServedMaster(Master(), url, stoker)
        assert "No entries." in (await served("audit")).stdout
        async with httpx.AsyncClient(base_url=url) as http:
            for job_id in (RUNNING, FINISHED):
                await http.patch(f"/jobs/{job_id}")
        head, *lines = (await served("audit")).stdout.splitlines()
        assert head.split() == ["TIME", "CALLER", "ADDRESS", "ACTION", "OBJECT", "OUTCOME"]
        assert [RUNNING in line and "done (202)" in line for line in lines] == [True, False]
        assert "refused (409)" in lines[1]
        assert all(" ana " in line for line in lines)
        [entry] = json.loads((await served("audit", "--object", RUNNING[:8], "--json")).stdout)
        assert entry["object"] == RUNNING
        assert "No entries." in (await served("audit", "--caller", "bob")).stdout


async def test_a_server_without_an_audit_log_says_so(served) -> None:
    result = await served("audit")
    assert result.exit_code != 0
    assert "keeps no audit log" in result.stderr


async def test_logs_of_several_machines_are_shown_together_without_a_cluster(
    stoker, tmp_path: Path
) -> None:
    files = []
    for number in range(3):
        master = f"master-{number % 2}"
        file = tmp_path / master
        files.append(file)
        entry = AuditEntry(
            time=audit_time(number),
            caller="ana",
            address="::1",
            action="PATCH /jobs/{jobid}",
            object=f"job-{number}",
            outcome="done",
            status=202,
        )
        await AuditLog(file, AuditOptions(), master).append(entry)
    options = [option for file in files[:2] for option in ("--file", str(file))]
    head, *lines = stoker("audit", *options).stdout.splitlines()
    assert head.split()[-1] == "MASTER"
    assert [line.split()[-1] for line in lines] == ["master-0", "master-1", "master-0"]
    [last] = json.loads(stoker("audit", *options, "--lines", "1", "--json").stdout)
    assert (last["object"], last["master"], last["sequence"]) == ("job-2", "master-0", 2)
    missing = stoker("audit", "--file", tmp_path / "gone")
    assert missing.exit_code == 2
