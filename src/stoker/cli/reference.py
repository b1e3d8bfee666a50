"""Write the reference page of all commands: `python -m stoker.cli.reference FILE`."""

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from stoker.cli.main import cli
from stoker.cli.options.flink import visible_names

INTRODUCTION = """\
# Command line

This page is generated from the commands: `make docs` writes it, a test compares it.

## Which master

The first of these that names a master decides. `stoker.connect()` follows the same rule.

1. `-m URL`; in Python the first argument of `connect`;
2. the variable `STOKER_MASTER`;
3. the cluster that runs this program, if the command or the call comes from a job;
4. the option `client.master`: `-D`, the variable `STOKER_CLIENT_MASTER`, `stoker.yml`;
5. the local cluster that `stoker cluster up` started, in `$STOKER_HOME` or `~/.stoker`.

A URL begins with `http://`, `https://` or, for a master of this machine with a `rest.socket`,
`unix://`. Separate several URLs by commas; the first that answers is used. If there is no cluster,
`stoker run` starts one for itself. If the local cluster died, every command says so and none takes
another cluster in its place.

## Exit codes

| Code | Meaning |
|---|---|
| 0 | Success. For `run` and `wait`: the job is FINISHED. |
| 1 | The job is FAILED or CANCELED, or the command could not do what was asked. If a PySpark \
script exited with a code of its own, `run` and `wait` exit with that code. |
| 2 | The command line or an option is wrong, and nothing was done. For `master` and \
`task-executor`: the process had started, and then an error ended it. |
| 130 | Ctrl-C. If `run` was watching a job, the job has been cancelled. |

The first Ctrl-C during `stoker run` asks whether to cancel the job; a second one cancels it.
Without a terminal the first one cancels it.

Results go to standard output; progress, questions and errors to the error stream. At a terminal
progress is drawn live; elsewhere each change is a line.

## Environment

| Variable | Meaning |
|---|---|
| `STOKER_MASTER` | URL of the master. |
| `STOKER_CONFIG` | The configuration file. |
| `STOKER_HOME` | Directory of the local cluster; by default `~/.stoker`. |
| `STOKER_DEBUG` | If set, errors are printed with a traceback. |

A variable can set every option: see [configuration](configuration.md).

Flink's spelling of an option [works as well](../flink-tools.md#the-same-options-in-stoker).
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
        lines += ["The options of every command, above, apply as well.", ""]
    return "\n".join(lines)


def _row(option: click.Option) -> str:
    metavar = "" if option.is_flag else f" {_metavar(option)}"
    names = ", ".join(visible_names(option))
    default = ""
    if isinstance(option.show_default, str):
        default = f" Default: {option.show_default}."
    elif option.show_default:
        default = f" Default: {option.default}."
    return f"| `{names}{metavar}` | {option.help or ''}{default} |"


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices)).replace("|", r"\|")
    return "FILE" if isinstance(option.type, click.Path) else "N"


def main(arguments: Sequence[str]) -> None:
    (target,) = arguments
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
