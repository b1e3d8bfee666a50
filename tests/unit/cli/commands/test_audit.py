"""`stoker audit`."""

import json
from pathlib import Path

import httpx

from stoker.security.audit import AuditLog
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
