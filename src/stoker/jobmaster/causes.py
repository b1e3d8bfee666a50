"""The built-in enricher: what kind of thing broke, as the label `cause`. Pure."""

import re
from collections.abc import Mapping

from stoker.core.results import Failure

CAUSE = "cause"

USER_CODE = "user-code"
DEPENDENCY = "dependency"
OUT_OF_MEMORY = "out-of-memory"
TASK_EXECUTOR_LOST = "task-executor-lost"
SPARK = "spark"
STORAGE = "storage"

_LOST = frozenset({"TaskExecutorLost", "AttemptLost"})
_ENGINE = frozenset({"SparkServerDied", "RunnerDied", "StartupFailed", "EngineUnavailable"})
_DEPENDENCY = frozenset({"ImportError", "ModuleNotFoundError", "UserCodeMismatch"})
_STORAGE = frozenset(
    {
        "BlobNotFound",
        "CorruptContent",
        "OutputIncomplete",
        "OutputNotFound",
        "PathAlreadyExists",
        "ResultDamaged",
        "StorageUnavailable",
    }
)
_MEMORY_WORDS = re.compile(
    r"OutOfMemoryError|java heap space|GC overhead limit|MemoryError|Container killed .* memory"
    r"|run out of memory|Cannot allocate memory|SparkOutOfMemoryError",
    re.IGNORECASE,
)
_DEPENDENCY_WORDS = re.compile(r"ModuleNotFoundError|No module named|ClassNotFoundException")
_STORAGE_WORDS = re.compile(
    r"No space left on device|Input/output error|Read-only file system|Stale file handle"
    r"|FileNotFoundException|PATH_NOT_FOUND|FAILED_READ_FILE|AccessDeniedException"
)
_USERS_FRAMES = ("In the job's code", "In a Spark worker")


def label_cause(failure: Failure) -> Mapping[str, str]:
    """What is known already stays."""
    return {} if CAUSE in failure.labels else {CAUSE: cause_of(failure)}


def cause_of(failure: Failure) -> str:
    """The most telling sign first: memory runs out in user code too."""
    text = f"{failure.error}: {failure.message}"
    if failure.error in _LOST:
        return TASK_EXECUTOR_LOST
    if _MEMORY_WORDS.search(text):
        return OUT_OF_MEMORY
    if failure.error in _DEPENDENCY or _DEPENDENCY_WORDS.search(text):
        return DEPENDENCY
    if failure.error in _STORAGE or _STORAGE_WORDS.search(text):
        return STORAGE
    if failure.error in _ENGINE:
        return SPARK
    if failure.stack_trace.startswith(_USERS_FRAMES) or failure.error == "PythonException":
        return USER_CODE
    return SPARK if failure.error.endswith("Exception") else USER_CODE
