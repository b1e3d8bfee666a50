"""Writes the reference page of all commands: `python -m stoker.cli.reference FILE`."""

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from stoker.cli.main import cli
from stoker.cli.options.flink import names_of

INTRODUCTION = """\
# Command line

This page is generated from the commands: `make docs` writes it, a test compares it.

## Which master

A command speaks to the master that is named by `-m URL`, else by `STOKER_MASTER`, else by the
option `client.master` in the configuration, else to the local cluster that `stoker cluster up`
started. Several URLs are separated by commas; the first that answers is used. `stoker run` starts
a cluster for itself when there is none.

## Exit codes

| Code | Meaning |
|---|---|
| 0 | It was done; of `run` and `wait`: the job is FINISHED. |
| 1 | The job is FAILED or CANCELED, or the command could not do what was asked. |
| 2 | The command line or an option is wrong, and nothing was done. Of `master` and \
`task-executor`: it had started, and something broke it. |
| 130 | Ctrl-C. A job that was watched by `run` has been cancelled. |

The first Ctrl-C during `stoker run` asks whether to cancel the job; a second one cancels it. Where
nobody can be asked, because there is no terminal, the first one cancels it.

Results go to standard output; progress, questions and errors to the error stream. At a terminal
progress is drawn live, elsewhere it is a line for each change.

## Environment

| Variable | Meaning |
|---|---|
| `STOKER_MASTER` | The master to speak to. |
| `STOKER_CONFIG` | The configuration file. |
| `STOKER_HOME` | Where the local cluster keeps its files; `~/.stoker` without it. |
| `STOKER_DEBUG` | If set, errors come with the place in the code where they arose. |

Every option can be set by a variable as well: see [configuration](configuration.md).

Flink's spelling of an option is [understood as well](../flink-tools.md#the-same-options-in-stoker).
"""


def render() -> str:
    context = click.Context(cli, info_name="stoker")
    sections = [INTRODUCTION, *_sections(context)]
    return "\n".join(sections)


def _sections(context: click.Context) -> Iterator[str]:
    yield _section(context)
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _sections(click.Context(child, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    usage = " ".join(context.command.collect_usage_pieces(context))
    title = context.command_path.replace(" [OPTIONS]", "")
    lines = [f"## {title}", "", "```", f"{title} {usage}", "```", ""]
    lines += [inspect.cleandoc(context.command.help or ""), ""]
    shared = {option.name for option in cli.params} if context.parent else set()
    options = [p for p in context.command.params if isinstance(p, click.Option) and not p.hidden]
    own = [option for option in options if option.name not in shared]
    if own:
        lines += ["| Option | Meaning |", "|---|---|", *(_row(option) for option in own), ""]
    if len(own) < len(options):
        lines += ["And the options of every command, above.", ""]
    return "\n".join(lines)


def _row(option: click.Option) -> str:
    metavar = "" if option.is_flag else f" {option.metavar or 'N'}"
    names = ", ".join(names_of(option))
    default = ""
    if isinstance(option.show_default, str):
        default = f" Default: {option.show_default}."
    elif option.show_default:
        default = f" Default: {option.default}."
    return f"| `{names}{metavar}` | {option.help or ''}{default} |"


def main(arguments: Sequence[str]) -> None:
    (target,) = arguments
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
