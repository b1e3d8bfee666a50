"""Changes of the token file in the audit log."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.security.audit import AuditLog, AuditQuery
from stoker.security.audit_entries import AuditEntry
from stoker.security.options import AuditOptions
from stoker.security.token_changes import SEEN_FILE, TokenChangeRecorder, find_changes
from stoker.security.tokens import Role, Token, TokenFile

tokens = st.lists(
    st.builds(
        Token,
        id=st.sampled_from("abcd"),
        name=st.sampled_from(["ana", "bob"]),
        role=st.sampled_from(Role),
        sha256=st.sampled_from(["1", "2"]),
        created_ms=st.just(0),
        expires_ms=st.none() | st.just(5),
    ),
    unique_by=lambda token: token.id,
).map(tuple)


@given(tokens, tokens)
def test_the_changes_lead_from_what_was_to_what_is(
    before: tuple[Token, ...], after: tuple[Token, ...]
) -> None:
    known = {token.id: token for token in before}
    for change in find_changes(before, after):
        match change.action:
            case "create token":
                assert change.token.id not in known
                known[change.token.id] = change.token
            case "change token":
                assert known[change.token.id] != change.token
                assert change.detail
                known[change.token.id] = change.token
            case "revoke token":
                assert known.pop(change.token.id) == change.token
    assert known == {token.id: token for token in after}
    assert find_changes(after, after) == []


def token(name: str, **fields: object) -> Token:
    made = Token(id=name, name=name, role=Role.SUBMIT, sha256="secret-hash", created_ms=0)
    return msgspec.structs.replace(made, **fields)


class OneMaster:
    """The recorder of one master; those of one machine share the files."""

    def __init__(self, place: Path) -> None:
        self.audit = AuditLog(place / "audit" / "audit.jsonl", AuditOptions(), "m")
        self.recorder = TokenChangeRecorder(
            TokenFile(place / "tokens.json"), self.audit, place / "audit" / SEEN_FILE, lambda: 0
        )

    async def record(self) -> list[str]:
        await self.recorder.record()
        return [f"{entry.action} {entry.object}" for entry in await self.entries()]

    async def entries(self) -> list[AuditEntry]:
        return list(reversed(await self.audit.read(AuditQuery())))


async def test_each_change_is_recorded_once_whoever_made_it_and_whoever_looks(
    tmp_path: Path,
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    one, two = OneMaster(tmp_path), OneMaster(tmp_path)
    assert await one.record() == []
    file.add(token("ana"))
    file.add(token("bob"))
    first = ["create token ana", "create token bob"]
    assert await one.record() == await two.record() == first
    file.revoke("ana")
    # No master runs for a while.
    three = OneMaster(tmp_path)
    assert await three.record() == [*first, "revoke token ana"]
    assert await one.record() == [*first, "revoke token ana"]


async def test_an_entry_says_what_changed_and_no_secret(tmp_path: Path) -> None:
    master = OneMaster(tmp_path)
    TokenFile(tmp_path / "tokens.json").add(token("ana"))
    await master.record()
    changed = token("ana", role=Role.OPERATE, sha256="another-hash")
    content = msgspec.json.encode({"version": 1, "tokens": [changed]})
    (tmp_path / "tokens.json").write_bytes(content)
    await master.record()
    entry = (await master.entries())[-1]
    assert (entry.action, entry.object, entry.caller) == ("change token", "ana", "")
    assert (entry.role, entry.outcome, entry.address) == ("operate", "done", "token file")
    assert "role: submit" in entry.reason
    assert "the secret" in entry.reason
    assert "hash" not in entry.reason


async def test_a_file_that_cannot_be_read_is_reported_once_and_loses_no_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master = OneMaster(tmp_path)
    TokenFile(tmp_path / "tokens.json").add(token("ana"))
    await master.record()
    content = (tmp_path / "tokens.json").read_bytes()
    (tmp_path / "tokens.json").write_text("{")
    for _ in range(3):
        assert await master.record() == ["create token ana"]
    assert caplog.text.count("changes of tokens are not recorded") == 1
    (tmp_path / "tokens.json").write_bytes(content)
    assert await master.record() == ["create token ana"]
    os.unlink(tmp_path / "tokens.json")
    assert await master.record() == ["create token ana", "revoke token ana"]


async def test_only_the_user_of_the_masters_can_read_what_was_recorded(tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json").add(token("ana"))
    await OneMaster(tmp_path).record()
    seen = tmp_path / "audit" / SEEN_FILE
    assert seen.stat().st_mode & 0o777 == 0o600
    assert seen.parent.stat().st_mode & 0o777 == 0o700
