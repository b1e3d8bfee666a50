"""`stoker token`."""

import json

import pytest

CREATE = ("token", "create", "--role", "read")


def test_a_token_is_shown_once_and_kept_as_a_hash(stoker, tmp_path) -> None:
    file = tmp_path / "tokens.json"
    made = stoker("token", "create", "nightly", "--role", "submit", "--file", file)
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert token.startswith("stk_")
    assert token not in file.read_text()
    listed = stoker("token", "list", "--file", file)
    assert "nightly" in listed.stdout
    assert "submit" in listed.stdout
    assert token not in listed.stdout
    [shown] = json.loads(stoker("token", "list", "--json", "--file", file).stdout)
    assert (shown["name"], shown["role"]) == ("nightly", "submit")
    ninety_days = 90 * 24 * 60 * 60 * 1000
    assert shown["expires"] == shown["created"] + ninety_days


def test_a_token_says_what_it_may_do_and_lasts_for_ever_only_if_that_is_asked_for(
    stoker, tmp_path
) -> None:
    file = tmp_path / "tokens.json"
    refused = stoker("token", "create", "nightly", "--file", file)
    assert refused.exit_code == 2
    assert "--role" in refused.stderr
    role = ("--role", "operate", "--expires", "never")
    assert stoker("token", "create", "nightly", *role, "--file", file).exit_code == 0
    [shown] = json.loads(stoker("token", "list", "--json", "--file", file).stdout)
    assert shown["expires"] is None


def test_a_token_is_revoked_by_name(stoker, tmp_path) -> None:
    file = tmp_path / "tokens.json"
    stoker("token", "create", "nightly", "--role", "read", "--file", file)
    assert "Revoked the token" in stoker("token", "revoke", "nightly", "--file", file).stdout
    assert "There are no tokens." in stoker("token", "list", "--file", file).stdout
    again = stoker("token", "revoke", "nightly", "--file", file)
    assert again.exit_code == 1
    assert "there is no token nightly" in again.stderr


def test_the_token_file_is_the_configured_one(stoker, tmp_path) -> None:
    setting = f"security.rest.tokens={tmp_path / 't.json'}"
    assert stoker(*CREATE, "a", "-D", setting, "--json").exit_code == 0
    assert "a" in (tmp_path / "t.json").read_text()


@pytest.mark.parametrize("duration", ["40000d", "9000000d", "999999999999d"])
def test_a_token_cannot_expire_at_a_date_that_cannot_be_displayed(
    stoker, tmp_path, duration: str
) -> None:
    refused = stoker(*CREATE, "a", "--expires", duration, "--file", tmp_path / "t")
    assert refused.exit_code == 2
    assert "give --expires never for a token that never expires" in refused.stderr
    made = stoker(*CREATE, "b", "--expires", "36500d", "--file", tmp_path / "t")
    assert made.exit_code == 0
    listed = stoker("token", "list", "--file", tmp_path / "t")
    assert listed.exit_code == 0, listed.output
    assert "  b  " in listed.stdout


def test_missing_or_wrong_arguments_are_refused_with_a_reason(stoker, tmp_path) -> None:
    nowhere = stoker("token", "list")
    assert nowhere.exit_code == 2
    assert "set security.rest.tokens" in nowhere.stderr
    odd = stoker(*CREATE, "a", "--expires", "3parsecs", "--file", tmp_path / "t")
    assert "is not a duration" in odd.stderr
    nothing = stoker(*CREATE, "a", "--expires", "0s", "--file", tmp_path / "t")
    assert "valid for some time" in nothing.stderr


def test_limits_are_set_changed_and_listed(stoker, tmp_path) -> None:
    file = tmp_path / "tokens.json"
    limits = ("--queue", "adhoc", "--queue", "nightly", "--max-priority", "5", "--max-jobs", "10")
    made = stoker("token", "create", "ana", "--role", "submit", *limits, "--file", file)
    assert made.exit_code == 0, made.output
    listed = stoker("token", "list", "--file", file).stdout
    assert "queues adhoc, nightly; priority up to 5; 10 jobs at once" in listed
    changed = stoker("token", "limit", "ana", "--max-submissions", "30", "--file", file)
    assert "10 jobs at once; 30 submissions a minute" in changed.stdout
    [shown] = json.loads(stoker("token", "list", "--json", "--file", file).stdout)
    assert shown["limits"] == {
        "queues": ["adhoc", "nightly"],
        "max-priority": 5,
        "max-jobs": 10,
        "max-submissions": 30,
    }
    assert (
        "no limits of its own" in stoker("token", "limit", "ana", "--clear", "--file", file).stdout
    )
    nothing = stoker("token", "limit", "ana", "--file", file)
    assert nothing.exit_code == 2
    assert "name a limit" in nothing.stderr


def test_limits_are_for_tokens_that_submit(stoker, tmp_path) -> None:
    file = tmp_path / "tokens.json"
    refused = stoker("token", "create", "eve", "--role", "read", "--max-jobs", "1", "--file", file)
    assert refused.exit_code != 0
    assert "submits nothing" in refused.stderr
    assert not file.exists()
