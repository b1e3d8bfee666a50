"""What a master or a task executor says while it serves."""

import logging

import pytest

from stoker.cli.service import serve_until_signal
from stoker.config.configuration import Configuration
from stoker.config.processes import ProcessOptions
from stoker.config.tree import OptionTree


def test_its_log_shows_no_secret_that_an_error_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    async def serve(_configuration: Configuration) -> int:
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
