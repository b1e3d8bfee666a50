"""UDFs at the top of a job's file: PySpark wants a session there, and there is none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.udf import UserDefinedFunction

from stoker.core.errors import InvalidInput
from stoker.pipeline.drafts import JobSettings
from stoker.pipeline.load import load_job
from stoker.pipeline.local_modules import parse_source
from stoker.pipeline.udf_types import may_define_udfs

WriteFile = Callable[[str, str], Path]
PIPELINE = """\
from pyspark.sql import functions as F
from stoker import Pipeline

job = Pipeline("prices")
{definitions}

@job.source
def numbers(spark):
    return spark.range(3)

@job.transform
def doubled(numbers):
    return numbers.select(twice("id"))

job.sink("doubled", name="out", format="noop")
"""
AS_PIPELINE = JobSettings(is_program=False)


@pytest.mark.parametrize(
    "definitions",
    [
        '@F.udf("double")\ndef twice(x):\n    return 2.0 * x',
        '@F.udf(returnType="struct<a: int>")\ndef twice(x):\n    return (x,)',
        'twice = F.udf(lambda x: x, "array<string>").asNondeterministic()',
        "import pandas as pd\n"
        '@F.pandas_udf("double")\ndef twice(x: pd.Series) -> pd.Series:\n    return 2 * x',
    ],
)
def test_a_type_in_words_needs_no_session(write: WriteFile, definitions: str) -> None:
    before = UserDefinedFunction.returnType
    loaded = load_job(write("job.py", PIPELINE.format(definitions=definitions)), AS_PIPELINE)
    assert [vertex.name for vertex in loaded.graph.vertices] == ["numbers", "doubled", "out"]
    assert UserDefinedFunction.returnType is before, "PySpark is as it was"


def test_a_udf_in_a_module_beside_the_file_needs_no_session(write: WriteFile) -> None:
    write("prices.py", 'from pyspark.sql.functions import udf\ntwice = udf(lambda x: x, "int")\n')
    job = write("job.py", PIPELINE.format(definitions="from prices import twice"))
    assert len(load_job(job, AS_PIPELINE).graph.vertices) == 3


@pytest.mark.parametrize(
    "definitions",
    ['big = F.col("id") > 3', "from pyspark.sql.types import StructType as S\nS.fromDDL('a INT')"],
)
def test_code_that_needs_a_session_is_refused_with_the_remedy(
    write: WriteFile, definitions: str
) -> None:
    job = write("job.py", PIPELINE.format(definitions=definitions))
    with pytest.raises(InvalidInput) as refused:
        load_job(job, AS_PIPELINE)
    message = str(refused.value)
    assert "this needs a Spark session, and there is none while the file is loaded" in message
    assert "parameter 'spark'" in message
    assert "/pyspark/" not in message
    assert len(message.splitlines()) <= 4


@pytest.mark.parametrize(
    ("source", "may_define"),
    [
        ("from stoker import Pipeline\nimport os.path", False),
        ("import pyspark.sql.functions as F", True),
        ("import my_udfs", True),
    ],
)
def test_pyspark_is_not_imported_for_a_file_that_cannot_define_udfs(
    source: str, may_define: bool
) -> None:
    assert may_define_udfs(parse_source(source)) is may_define


CELLS = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell("import stoker", store_history=True).raise_error()
done = shell.run_cell({cell!r}, store_history=True)
done.raise_error()
assert shell.user_ns["twice"].returnType == "double"
"""
UDF = 'from pyspark.sql.functions import udf\n@udf("double")\ndef twice(x):\n    return 2.0 * x\n'


@pytest.mark.parametrize("cell", [UDF, f"import stoker\n{UDF}"], ids=["later", "same-cell"])
def test_a_cell_needs_no_session_for_a_type_in_words(cell: str) -> None:
    """In a process of its own: the shell and the change of PySpark belong to the process."""
    code = CELLS.format(cell=cell)
    if cell.startswith("import stoker"):
        code = code.replace('shell.run_cell("import stoker", store_history=True).raise_error()', "")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
