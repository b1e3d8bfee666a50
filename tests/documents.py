"""Pages of the documentation, as a reader follows them: files to save, and commands to type."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    """Name of the file that the block is; None for commands."""
    text: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(*match.groups()) for match in _BLOCK.finditer(page.read_text())]


def save_files(page: Path, folder: Path) -> list[str]:
    """Save every block with a title as the file of that name; returns the names."""
    files = [block for block in blocks_of(page) if block.title]
    for block in files:
        (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.title).write_text(block.text)
    return [block.title for block in files]


def commands_of(page: Path) -> list[str]:
    """The blocks of commands, in their order. They share one shell: a later one uses variables."""
    return [block.text for block in blocks_of(page) if block.language == "sh"]


def run_in_one_shell(
    commands: list[str], folder: Path, environment: Mapping[str, str], *, timeout: float
) -> str:
    """Run the blocks in one shell, which ends at the first command that fails; returns its output.

    The last line of the output that begins with a plus sign is the command that failed.
    """
    process = subprocess.Popen(
        ["bash", "-euxo", "pipefail", "-c", "\n".join(commands)],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        raise AssertionError(f"not done after {timeout:g} s:\n{output}") from None
    assert process.returncode == 0, output
    return output


def path_with(*folders: Path) -> str:
    """A search path for commands that begins with these folders."""
    return ":".join([*map(str, folders), "/usr/local/bin", "/usr/bin", "/bin"])
