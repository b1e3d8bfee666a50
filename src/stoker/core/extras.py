"""Optional dependencies: `pip install stoker` is the client, `stoker[cluster]` is everything.

A client alone submits YAML, SQL and programs, and follows jobs. Masters, task executors and
pipelines with Python functions need the extra; whoever lacks it gets an error with the remedy.
"""

from importlib.util import find_spec

from stoker.core.errors import InvalidInput

CLUSTER_MODULES = (
    "fsspec",
    "grpc",
    "httptools",
    "kazoo",
    "multipart",
    "pandas",
    "pyarrow",
    "pyspark",
    "uvicorn",
    "uvloop",
)
"""Top-level modules that the extra installs and Stoker imports."""
REMEDY = 'pip install "stoker[cluster]"'


def check_cluster_extra(purpose: str) -> None:
    """Raises InvalidInput unless all that a cluster needs is installed. Imports nothing."""
    missing = next((name for name in CLUSTER_MODULES if not _is_installed(name)), None)
    if missing is not None:
        raise InvalidInput(f"{purpose} needs {missing}, which is not installed: {REMEDY}")


def remedy_for(error: ImportError) -> str | None:
    """How to install the missing module, if the extra brings it."""
    top = (error.name or "").partition(".")[0]
    return REMEDY if isinstance(error, ModuleNotFoundError) and top in CLUSTER_MODULES else None


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
