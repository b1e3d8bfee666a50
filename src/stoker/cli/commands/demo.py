"""`stoker demo`: all of Stoker in one minute, on generated data."""

import runpy
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

import stoker
from stoker.cli.demo.story import Story
from stoker.cli.exit_codes import OK
from stoker.cli.options.invocation import Invocation, shared_options
from stoker.cli.output import echo_json
from stoker.cli.temporary_cluster import exit_on_sigterm
from stoker.core.errors import InvalidInput
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job
from stoker.processes.local.cluster import LocalCluster


@click.command()
@click.option(
    "--examples",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the examples; by default those that come with Stoker.",
)
@shared_options
def demo(invocation: Invocation, examples: Path | None) -> int:
    """Show what Stoker does: a local cluster, a batch and a streaming job, a master that dies.

    Example: stoker demo
    """
    folder = _examples(examples)
    configuration = invocation.configuration("rest.bind-port=0")
    directory = Path(tempfile.mkdtemp(prefix="stoker-demo-"))
    # With --json standard output is for the outcome alone.
    story = Story(Console(highlight=False, stderr=invocation.json))
    with ExitStack() as stack:
        stack.enter_context(exit_on_sigterm())
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        story.begin()
        make_data = runpy.run_path(str(folder / "make_data.py"))["make_data"]
        make_data(directory / "data")
        story.show_data(directory / "data")
        cluster = stack.enter_context(LocalCluster(directory / "cluster", tied=True))
        cluster.start(configuration=configuration.as_file_text(), with_token=True)
        places = {"data": str(directory / "data"), "out": str(directory / "out")}
        batch = load_job(folder / "orders_batch.py", JobSettings(params=places))
        streaming = load_job(folder / "clicks_streaming.py", JobSettings(params=places))
        story.show_cluster(cluster)
        story.run_batch(cluster, batch, directory / "out")
        story.run_streaming(cluster, streaming, directory / "out")
        story.clean_up(cluster)
    story.end()
    if invocation.json:
        echo_json(story.outcome)
    return OK


def _examples(named: Path | None) -> Path:
    package = Path(stoker.__file__).parent
    # A wheel has them in the package; in a clone they are in its root.
    candidates = [named] if named else [package / "examples", package.parents[1] / "examples"]
    for folder in candidates:
        if (folder / "make_data.py").is_file():
            return folder
    raise InvalidInput(
        f"there are no examples in {candidates[0]}; name a directory that has make_data.py, "
        "orders_batch.py and clicks_streaming.py with --examples DIR"
    )
