from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """A function that writes a file of a job and returns the path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """A function that returns the message with which an action is refused."""

    def message_of(action: Callable[[], object]) -> str:
        with pytest.raises(InvalidInput) as refused:
            action()
        return str(refused.value)

    return message_of
