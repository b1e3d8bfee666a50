"""The command `stoker`. It must start fast, so a command's module is imported only when used."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from stoker import __version__
from stoker.cli.click_groups import LazyGroup
from stoker.cli.errors import report
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.overview import overview

COMMANDS = {
    "run": "stoker.cli.commands.run:run",
    "info": "stoker.cli.commands.info:info",
    "list": "stoker.cli.commands.list:list_jobs",
    "status": "stoker.cli.commands.status:status",
    "wait": "stoker.cli.commands.wait:wait",
    "logs": "stoker.cli.commands.logs:logs",
    "rows": "stoker.cli.commands.rows:rows",
    "cancel": "stoker.cli.commands.cancel:cancel",
    "stop": "stoker.cli.commands.stop:stop",
    "savepoint": "stoker.cli.commands.savepoint:savepoint",
    "checkpoint": "stoker.cli.commands.checkpoint:checkpoint",
    "upgrade": "stoker.cli.commands.upgrade:upgrade",
    "rescale": "stoker.cli.commands.rescale:rescale",
    "queue": "stoker.cli.commands.queue:queue",
    "quarantine": "stoker.cli.commands.quarantine:quarantine",
    "events": "stoker.cli.commands.records.events:events",
    "audit": "stoker.cli.commands.records.audit:audit",
    "token": "stoker.cli.commands.token:token",
    "cluster": "stoker.cli.commands.cluster:cluster",
    "master": "stoker.cli.commands.master:master",
    "task-executor": "stoker.cli.commands.task_executor:task_executor",
    "drain": "stoker.cli.commands.drain:drain",
    "shutdown": "stoker.cli.commands.shutdown:shutdown",
    "config": "stoker.cli.commands.config:config",
    "init": "stoker.cli.project:init",
    "completion": "stoker.cli.commands.completion:completion",
    "demo": "stoker.cli.commands.demo:demo",
}
HABITS = {
    "submit": "stoker run",
    "exec": "stoker run",
    "start": "stoker run, or stoker cluster up",
    "sql": "stoker run FILE.sql",
    "ps": "stoker list",
    "ls": "stoker list",
    "jobs": "stoker list",
    "show": "stoker status",
    "describe": "stoker status",
    "get": "stoker status",
    "kill": "stoker cancel",
    "rm": "stoker cancel",
    "tail": "stoker logs --follow",
    "history": "stoker events",
    "restart": "stoker cluster restart",
    "up": "stoker cluster up",
    "down": "stoker cluster down",
    "new": "stoker init",
    "options": "stoker config",
    "settings": "stoker config",
    "version": "stoker --version",
    "help": "stoker --help",
}
"""What the commands of other tools are called here."""


class CommandLine(LazyGroup):
    """The outermost group: errors end here, and the value a command returns is its exit code."""

    def get_help(self, ctx: click.Context) -> str:
        return overview()

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(
                args=args,
                prog_name=prog_name or "stoker",
                complete_var=complete_var,
                standalone_mode=False,
                **extra,
            )
        # The top of the process: every error is reported to the user.
        except (Exception, KeyboardInterrupt) as error:
            code = report(error)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(
    cls=CommandLine,
    lazy=COMMANDS,
    habits=HABITS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="stoker %(version)s")
@shared_options
@click.pass_context
def cli(ctx: click.Context, invocation: Invocation) -> None:
    """Run PySpark jobs on a cluster that never loses an accepted job.

    These options may also be given after the command.
    """
    ctx.obj = invocation


def main() -> None:
    cli()


if __name__ == "__main__":
    main()
