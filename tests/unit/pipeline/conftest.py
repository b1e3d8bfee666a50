from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.core.errors import InvalidInput

WriteFile = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Writes a file of a job and returns its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """The message with which something is refused."""

    def message_of(action: Callable[[], object]) -> str:
        with pytest.raises(InvalidInput) as refused:
            action()
        return str(refused.value)

    return message_of
