"""Which environment variables code of a job inherits from its task executor.

The environment of a task executor may hold what its jobs must not see: credentials of the
coordinator or the storage, tokens, whatever its service manager was given. So code of a job gets
variables from a list: those that programs need to find their tools and speak the right language,
those of Spark and Hadoop, and what the operator adds with `runner.environment.pass`.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from stoker.core.failpoints import ENVIRONMENT_VARIABLE as FAILPOINT
from stoker.osproc.orphans import OWNER, SERVER

_PASSED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "JAVA_HOME",
    "PYTHON*",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "SPARK_*",
    "PYSPARK_*",
    "HADOOP_*",
    "YARN_*",
    "HIVE_*",
    "KRB5*",
    "SSL_CERT_*",
    "REQUESTS_CA_BUNDLE",
    "*_proxy",
    "*_PROXY",
    "OMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "ARROW_*",
    "NUMEXPR_*",
    "STOKER_HOME",
    "STOKER_MASTER",
    "STOKER_LOCAL_CLUSTER",
    FAILPOINT,
    OWNER,
    SERVER,
)
_FOR_INSTALLERS = ("PIP_*", "UV_*")
"""Where to install from. Its credentials, if there are any, are for the installer alone."""
_FOREIGN = frozenset(
    {
        "SPARK_REMOTE",
        "SPARK_LOCAL_REMOTE",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
    }
)
"""Variables that would connect a process to another Spark."""


def for_jobs(environ: Mapping[str, str], also: Iterable[str]) -> dict[str, str]:
    """The variables for runners, drivers and Spark. `also` are further names, such as `AWS_*`."""
    return _selected(environ, (*_PASSED, *also))


def for_installers(environ: Mapping[str, str], also: Iterable[str]) -> dict[str, str]:
    return _selected(environ, (*_PASSED, *_FOR_INSTALLERS, *also))


def _selected(environ: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name not in _FOREIGN and any(fnmatchcase(name, pattern) for pattern in patterns)
    }
