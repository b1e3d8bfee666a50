"""A notebook with a real Jupyter kernel and a real cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from documents import ROOT, blocks_of

PAGE = ROOT / "docs" / "notebooks.md"


class Notebook:
    """Runs one cell after the other in one kernel."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def __call__(self, cell: str) -> Any:
        """The cell with its outputs; CellExecutionError if it raised something."""
        made = nbformat.v4.new_code_cell(cell)
        cells = self._client.nb.cells
        cells.append(made)
        return self._client.execute_cell(made, len(cells) - 1)

    def text(self, cell: str) -> str:
        """What the cell printed, and its value as text."""
        return "".join(_text_of(output) for output in self(cell).outputs)

    def html(self, cell: str) -> str:
        outputs = self(cell).outputs
        return "".join(output.get("data", {}).get("text/html", "") for output in outputs)

    def error(self, cell: str) -> str:
        with pytest.raises(CellExecutionError) as caught:
            self(cell)
        return f"{caught.value.ename}: {caught.value.evalue}"


def _text_of(output: Any) -> str:
    return str(output.get("text", "") or output.get("data", {}).get("text/plain", ""))


@pytest.fixture(scope="module")
def notebook(stoker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    directory = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(directory)}},
    )
    with client.setup_kernel(env=stoker.environment):
        made = Notebook(client)
        made("import stoker\ncluster = stoker.connect()")
        yield made


def test_every_cell_of_the_page_on_notebooks_runs_as_written(
    notebook: Notebook, tmp_path: Path
) -> None:
    rows = '{"country": "AT", "day": "2026-11-01"}\n' * 3
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "part.json").write_text(rows)
    cells = [block.text for block in blocks_of(PAGE) if block.language == "python"]
    assert len(cells) == 5
    shown = [notebook(cell.replace("/data", str(tmp_path))).outputs for cell in cells]
    assert "2026-11-01" in str(shown[3])
    assert "FINISHED" in str(shown[4])


PIPELINE = """
from pyspark.sql.functions import col
p = stoker.Pipeline("cells")

@p.source
def numbers(spark):
    print("first version")
    return spark.range(3)

p.sink("numbers", name="out", format="noop", mode="overwrite")
"""


def test_a_cell_can_be_run_again_and_replaces_what_it_defined(notebook: Notebook) -> None:
    notebook(PIPELINE)
    for _ in range(2):
        notebook("""
@p.source
def numbers(spark):
    print("second version")
    return spark.range(4)

p.sink("numbers", name="out", format="noop", mode="overwrite")
""")
    notebook("job = cluster.submit(p)")
    assert notebook.text("job.result()").startswith("<details of job cells (")
    assert notebook.text("print(job.logs())") == "second version\n\n"


def test_in_a_file_that_a_cell_submits_a_name_is_still_used_once(
    notebook: Notebook, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("twice") / "twice.py"
    source = "@p.source\ndef numbers(spark):\n    return spark.range(1)\n"
    path.write_text(f"import stoker\np = stoker.Pipeline('twice')\n{source}\n{source}")
    assert "the name is used twice" in notebook.error(f"cluster.submit({str(path)!r})")


def test_handles_are_short_texts_and_show_the_state_of_the_job(notebook: Notebook) -> None:
    shown = notebook.text("cluster")
    assert shown.startswith("<stoker cluster unix:///")
    assert "%20" not in shown, "a path is for people"
    notebook("job = cluster.sql('select 1 as one')\njob.result()")
    assert len(notebook.text("repr(job)")) < 40
    html = notebook.html("job")
    assert "FINISHED" in html
    assert "<b>sql</b>" in html


def test_the_picture_of_a_job_changes_while_the_notebook_goes_on(notebook: Notebook) -> None:
    notebook("""
import time
slow = stoker.Pipeline("slow")

@slow.source
def numbers(spark):
    time.sleep(3)
    return spark.range(3)

slow.sink("numbers", name="out", format="noop", mode="overwrite")
""")
    shown = notebook("cluster.submit(slow)")
    assert "FINISHED" not in str(shown.outputs)
    # The cell has ended; messages of the kernel arrive while another one runs.
    notebook("time.sleep(15)")
    assert "FINISHED" in shown.outputs[0]["data"]["text/html"]


def test_a_sql_cell_shows_its_rows(notebook: Notebook) -> None:
    notebook("%load_ext stoker")
    html = notebook.html("""%%stoker --cluster cluster --param least=3
-- param: least
SELECT id, 'text' AS kind FROM range(5) WHERE id >= :least ORDER BY id
""")
    assert "<th>id</th><th>kind</th>" in html
    assert "<td>3</td><td>text</td>" in html
    assert "2 rows" in html
    assert "<td>2</td>" not in html
    assert notebook.text("[row.id for row in _]") == "[3, 4]"


def test_a_pipeline_cell_defines_runs_and_prints(notebook: Notebook) -> None:
    notebook("%load_ext stoker")
    printed = notebook.text(f"%%stoker pipeline --cluster cluster\n{PIPELINE}")
    assert "first version" in printed
    again = notebook.text("""%%stoker pipeline p --cluster cluster
@p.source
def numbers(spark):
    print("another version")
    return spark.range(3)
""")
    assert "another version" in again


def test_mistakes_in_a_magic_are_explained(notebook: Notebook) -> None:
    notebook("%load_ext stoker")
    assert "there is no cluster in this variable" in notebook.error(
        "%%stoker --cluster nothing\nselect 1"
    )
    assert "assigns 0 pipelines" in notebook.error("%%stoker pipeline --cluster cluster\nx = 1")
    assert "usage" in notebook.error("%%stoker --nonsense\nselect 1")
    failed = notebook.error("%%stoker --cluster cluster\nSELECT missing FROM range(3)")
    assert "missing" in failed


def test_functions_classes_and_lambdas_of_cells_travel_with_the_job(notebook: Notebook) -> None:
    """They are in no module that a task executor could import."""
    notebook("""
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

offset = 10
add = lambda value: value + offset

class Doubled:
    def __init__(self, value):
        self.value = 2 * value

def computed(value):
    return Doubled(add(value)).value
""")
    notebook("""
cells = stoker.Pipeline("travelling")
plus_one = F.udf(lambda value: computed(value) + 1, LongType())

@cells.source
def numbers(spark):
    print("in the source:", computed(1))
    return spark.range(3).select(plus_one("id").alias("n"))

cells.transform("shown", sql="SELECT n FROM numbers ORDER BY n", inputs=["numbers"])

@cells.sink("shown", name="printed")
def write(df):
    print([row.n for row in df.collect()])
""")
    notebook("job = cluster.submit(cells)\njob.result()")
    printed = notebook.text("print(job.logs())")
    assert "in the source: 22" in printed
    assert "[21, 23, 25]" in printed
    notebook("offset = 20")
    notebook("job = cluster.submit(cells)\njob.result()")
    assert "[41, 43, 45]" in notebook.text("print(job.logs())")


def test_a_type_of_a_udf_is_written_in_words_in_a_cell(notebook: Notebook) -> None:
    """There is no session in the notebook that PySpark could ask what it means."""
    notebook("""
typed = stoker.Pipeline("typed")

@F.udf("double")
def half(value):
    return value / 2

@F.pandas_udf("long")
def twice(values):
    return 2 * values

@typed.source
def numbers(spark):
    return spark.range(3).select(half("id").alias("h"), twice("id").alias("t"))

@typed.sink("numbers")
def printed(df):
    print([tuple(row) for row in df.sort("h").collect()])
""")
    notebook("job = cluster.submit(typed)\njob.result()")
    assert "[(0.0, 0), (0.5, 2), (1.0, 4)]" in notebook.text("print(job.logs())")


def test_the_failure_of_a_function_of_a_cell_shows_its_line(notebook: Notebook) -> None:
    notebook("""
failing = stoker.Pipeline("failing")

@failing.source
def numbers(spark):
    return spark.range(3).select("nope")

failing.sink("numbers", name="out", format="noop", mode="overwrite")
""")
    said = notebook.error("cluster.submit(failing).result()")
    assert "`nope` cannot be resolved" in said
    assert "in source 'numbers', " in said
    assert "line 5" in said, "IPython removes the empty line above"
