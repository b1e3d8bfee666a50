"""`stoker config`: what is set, and where."""

import json
from pathlib import Path

from unit.cli.conftest import Stoker


def test_each_option_that_is_set_is_shown_with_its_place(stoker: Stoker, monkeypatch) -> None:
    Path("stoker.yml").write_text("heartbeat:\n  interval: 5 s\n\nspark.sql.ansi.enabled: true\n")
    monkeypatch.setenv("STOKER_CLIENT_TOKEN", "stk_secret")
    result = stoker("config", "-D", "taskmanager.numberOfTaskSlots=3")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["heartbeat.interval"].split("  ")[-1].strip() == f"{Path.cwd()}/stoker.yml:2"
    assert "5 s" in lines["heartbeat.interval"]
    assert lines["spark.sql.ansi.enabled"].endswith("stoker.yml:4")
    assert lines["client.token"].endswith("environment variable STOKER_CLIENT_TOKEN")
    assert lines["taskmanager.numberOfTaskSlots"].endswith("-D taskmanager.numberOfTaskSlots")
    assert set(lines) - {"OPTION"} == {
        "client.token",
        "heartbeat.interval",
        "spark.sql.ansi.enabled",
        "taskmanager.numberOfTaskSlots",
    }
    assert "stk_secret" not in result.output
    assert f"Read {Path.cwd()}/stoker.yml." in result.stderr


def test_a_variable_wins_over_the_file_and_is_named_as_the_place(
    stoker: Stoker, monkeypatch
) -> None:
    Path("stoker.yml").write_text("heartbeat.interval: 5 s\n")
    monkeypatch.setenv("STOKER_HEARTBEAT_INTERVAL", "7 s")
    (shown,) = json.loads(stoker("config", "heartbeat.interval", "--json").stdout)
    assert (shown["value"], shown["origin"]) == (
        "7 s",
        "environment variable STOKER_HEARTBEAT_INTERVAL",
    )


def test_an_option_that_is_named_is_shown_with_its_default_and_meaning(stoker: Stoker) -> None:
    output = stoker("config", "client.timeout").stdout
    assert "1 min" in output
    assert "default" in output
    assert "How long the answer to a call may take." in output


def test_the_beginning_of_a_name_shows_all_options_below_it(stoker: Stoker) -> None:
    keys = [shown["key"] for shown in json.loads(stoker("config", "heartbeat", "--json").stdout)]
    assert len(keys) > 1
    assert all(key.startswith("heartbeat.") for key in keys)


def test_all_options_are_shown_on_request(stoker: Stoker) -> None:
    everything = json.loads(stoker("config", "--all", "--json").stdout)
    assert len(everything) > 100
    assert all(shown["origin"] == "default" for shown in everything)
    assert "stoker config --all" in stoker("config").stderr


def test_an_unknown_option_is_refused_with_a_suggestion(stoker: Stoker) -> None:
    result = stoker("config", "heartbeat.intervall")
    assert result.exit_code == 1
    assert "did you mean 'heartbeat.interval'?" in result.stderr
