"""What a master or a task executor prints while it serves."""

import json
import logging

import pytest

from stoker.cli.service import serve_until_signal
from stoker.config.configuration import Configuration
from stoker.config.processes import ProcessOptions
from stoker.config.tree import OptionTree
from stoker.core.errors import StartupFailed
from stoker.core.ids import ResourceId
from stoker.processes.announcement import Announce, Announcement


def test_the_log_shows_no_secrets_from_messages_or_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_configuration: Configuration, _announce: Announce) -> int:
        log = logging.getLogger("stoker.test")
        log.info("reading jdbc:postgresql://ada:lovelace@db/orders")
        try:
            raise ValueError("cannot connect with password=swordfish; host=db")
        except ValueError:
            log.exception("job %s failed", "1234")
        return 0

    assert serve_until_signal(serve, Configuration(tree=OptionTree([ProcessOptions]))) == 0
    said = capsys.readouterr().err
    assert "lovelace" not in said
    assert "swordfish" not in said
    assert "job 1234 failed" in said
    assert "host=db" in said


@pytest.mark.parametrize("kind", [StartupFailed, ValueError])
def test_the_error_that_ends_the_process_shows_no_secrets(
    capsys: pytest.CaptureFixture[str], kind: type[Exception]
) -> None:
    async def serve(_configuration: Configuration, _announce: Announce) -> int:
        raise kind("cannot connect with password=swordfish; host=db")

    assert serve_until_signal(serve, Configuration(tree=OptionTree([ProcessOptions])), json=True)
    said = capsys.readouterr()
    assert "swordfish" not in said.out + said.err
    assert "host=db" in said.err


def test_with_json_the_process_reports_its_start_and_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_configuration: Configuration, announce: Announce) -> int:
        announce(Announcement(id=ResourceId("master-1"), address="http://127.0.0.1:8081"))
        logging.getLogger("stoker.test").info("leads")
        return 0

    configuration = Configuration(tree=OptionTree([ProcessOptions]))
    assert serve_until_signal(serve, configuration, json=True) == 0
    said = capsys.readouterr()
    assert [json.loads(line) for line in said.out.splitlines()] == [
        {"event": "ready", "id": "master-1", "address": "http://127.0.0.1:8081"},
        {"event": "ended", "exit_code": 0, "failure": None},
    ]
    assert "leads" in said.err


def test_with_json_the_process_reports_why_it_could_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def serve(_configuration: Configuration, _announce: Announce) -> int:
        raise StartupFailed("port 8081 is in use; set another one")

    configuration = Configuration(tree=OptionTree([ProcessOptions]))
    assert serve_until_signal(serve, configuration, json=True) == 1
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "event": "ended",
        "exit_code": 1,
        "failure": "port 8081 is in use; set another one",
    }
    assert said.err == "Error: port 8081 is in use; set another one\n"


def test_without_json_standard_output_stays_empty(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(_configuration: Configuration, announce: Announce) -> int:
        announce(Announcement(id=ResourceId("master-1"), address="http://127.0.0.1:8081"))
        return 0

    assert serve_until_signal(serve, Configuration(tree=OptionTree([ProcessOptions]))) == 0
    assert capsys.readouterr().out == ""
