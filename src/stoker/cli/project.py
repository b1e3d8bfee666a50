"""`stoker init`: write a small project that runs."""

import shlex
from importlib.resources import files
from pathlib import Path

import click

from stoker.cli.command_name import own_command
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json
from stoker.core.errors import InvalidInput

FILES = {
    "orders.py": "orders.py.txt",
    "visits.py": "visits.py.txt",
    "data/orders.csv": "orders.csv",
    "stoker.yml": "stoker.yml",
    ".gitignore": "gitignore.txt",
}
"""Each file of the project, and the one in the template that it is a copy of."""


@click.command()
@click.argument(
    "directory", default=".", type=click.Path(file_okay=False, writable=True, path_type=Path)
)
@shared_options
def init(invocation: Invocation, directory: Path) -> int:
    """Write a small project: a batch job with its data, a stream, and a configuration.

    DIRECTORY is made if it is not there; by default it is the current one. No file is overwritten.

    Example: stoker init shop
    """
    present = [name for name in FILES if (directory / name).exists()]
    if present:
        raise InvalidInput(
            f"{directory} already has {', '.join(present)}, and no file is overwritten; name "
            "another directory"
        )
    write_project(directory)
    command = _first_command(directory)
    if invocation.json:
        echo_json({"directory": str(directory.absolute()), "files": [*FILES], "command": command})
        return OK
    click.echo(f"Wrote {', '.join(FILES)} in {directory.absolute()}.\n\nRun the first job:\n")
    click.echo(f"  {command}")
    return OK


def write_project(directory: Path) -> None:
    template = files("stoker.cli") / "template"
    for name, source in FILES.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((template / source).read_text(encoding="utf-8"), encoding="utf-8")


def _first_command(directory: Path) -> str:
    run = f"{own_command()} run orders.py"
    here = directory.absolute() == Path.cwd()
    return run if here else f"cd {shlex.quote(str(directory))} && {run}"
