"""The cell magic `%%stoker` for Jupyter and IPython: `%load_ext stoker` registers it.

%%stoker                                  %%stoker pipeline orders
SELECT country, sum(amount)               @orders.transform
FROM json.`/data/orders`                  def by_country(raw):
GROUP BY country                              return raw.groupBy("country").count()
"""

import argparse
import shlex
from typing import Any

import stoker
from stoker.client.cluster import Cluster, Job
from stoker.client.rows import Rows
from stoker.core.errors import InvalidInput, NotFound
from stoker.pipeline import Pipeline

_SQL, _PIPELINE = "sql", "pipeline"


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise InvalidInput(f"%%stoker: {message}; {self.format_usage().strip()}")


def _parser() -> _Arguments:
    parser = _Arguments("%%stoker", add_help=False)
    parser.add_argument("kind", nargs="?", choices=(_SQL, _PIPELINE), default=_SQL)
    parser.add_argument("pipeline", nargs="?")
    parser.add_argument("--name")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cluster", metavar="VARIABLE")
    parser.add_argument("--detached", action="store_true")
    return parser


class CellMagic:
    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def run(self, line: str, cell: str) -> Rows | Job | None:
        """Run the cell as a job on the cluster; `%%stoker?` shows this text.

        %%stoker [sql] runs SQL statements and gives the rows of the last SELECT.
        %%stoker pipeline [NAME] runs Python, and then the pipeline in the variable NAME; without a
        NAME, the only pipeline that the cell assigns.

        --name NAME        name of the job
        --param NAME=VALUE value of a parameter; repeatable
        --cluster VARIABLE variable with the cluster, else the one that stoker.connect() finds
        --detached         give the handle of the job at once, instead of waiting for its end
        """
        arguments = _parser().parse_args(shlex.split(line))
        params = dict(_pair(text) for text in arguments.param)
        if arguments.kind == _PIPELINE:
            pipeline = self._define(arguments.pipeline, cell)
            job = self._cluster(arguments.cluster).submit(
                pipeline, params=params, name=arguments.name
            )
        elif arguments.pipeline is not None:
            raise InvalidInput(f"%%stoker sql takes no name of a pipeline: {arguments.pipeline}")
        else:
            job = self._cluster(arguments.cluster).sql(
                cell, params=params, **({"name": arguments.name} if arguments.name else {})
            )
        if arguments.detached:
            return job
        return _finish(job, has_rows=arguments.kind == _SQL)

    def _cluster(self, variable: str | None) -> Cluster:
        if variable is None:
            return stoker.connect()
        found = self._shell.user_ns.get(variable)
        if not isinstance(found, Cluster):
            raise InvalidInput(f"--cluster {variable}: there is no cluster in this variable")
        return found

    def _define(self, variable: str | None, cell: str) -> Pipeline:
        """Run the cell like any other, and return the pipeline that it is about."""
        before = dict(self._shell.user_ns)
        self._shell.run_cell(cell).raise_error()
        variables = self._shell.user_ns
        if variable is not None:
            found = variables.get(variable)
            if not isinstance(found, Pipeline):
                raise InvalidInput(f"there is no pipeline in the variable {variable!r}")
            return found
        assigned = {
            name: value
            for name, value in variables.items()
            if isinstance(value, Pipeline) and before.get(name) is not value
        }
        # IPython itself keeps the value of the last cell in variables such as `_` and `_3`.
        made = {id(value): value for name, value in assigned.items() if not name.startswith("_")}
        if len(made) != 1:
            raise InvalidInput(
                f"the cell assigns {len(made)} pipelines; name the variable of the one to run: "
                "%%stoker pipeline NAME"
            )
        return made.popitem()[1]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidInput(f"--param {text}: write NAME=VALUE")
    return name, value


def _finish(job: Job, *, has_rows: bool) -> Rows | None:
    """Show the job until its end, print what it printed, and return its rows if it has any."""
    job.show()
    printed = job.logs()
    if printed:
        print(printed, end="" if printed.endswith("\n") else "\n")
    job.result()
    if not has_rows:
        return None
    try:
        return job.rows()
    except NotFound:
        # The statements were all commands.
        return None


def register(shell: Any) -> None:
    """Add the magic to this shell of IPython."""
    shell.register_magic_function(CellMagic(shell).run, magic_kind="cell", magic_name="stoker")
