"""From a file to a job: Python pipeline, YAML or SQL script, by its suffix."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from stoker.core.errors import InvalidInput
from stoker.core.ids import JobId
from stoker.pipeline.building import LoadedJob, assemble
from stoker.pipeline.drafts import JobDraft, UserFunction
from stoker.pipeline.python_job import (
    choose_pipeline,
    function_in,
    run_file,
    script_surroundings,
)
from stoker.pipeline.sql_script import script_draft
from stoker.pipeline.texts import refuse
from stoker.pipeline.yaml_job import yaml_draft

_YAML = (".yml", ".yaml")


def load_job(
    target: str | Path,
    *,
    params: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    job_id: JobId | None = None,
    name: str | None = None,
    configuration: Mapping[str, str] | None = None,
    python_files: Sequence[Path] = (),
    wheels: Sequence[Path] = (),
    files: Sequence[Path] = (),
) -> LoadedJob:
    """The job in a file, or in `FILE.py:pipeline` when the file has several.

    `name` and `configuration` go before what the file says; files are added to its own. Raises
    InvalidInput (InvalidJobGraph among it), and does nothing else for a bad file.
    """
    file, wanted = _split(str(target))
    text = read_job_file(file)
    with ExitStack() as surroundings:
        if file.suffix == ".py" or file.suffix in _YAML:
            surroundings.enter_context(script_surroundings(file, arguments))
        draft = _draft(file, text, wanted, arguments)
        draft = replace(
            draft,
            name=name if name is not None else draft.name,
            configuration={**draft.configuration, **(configuration or {})},
            python_files=(*draft.python_files, *python_files),
            wheels=(*draft.wheels, *wheels),
            files=(*draft.files, *files),
        )
        return assemble(
            draft, job_id=job_id, params=params or {}, base_directory=file.absolute().parent
        )


def parse_params(given: Sequence[str]) -> dict[str, str]:
    """`--param` values, each `name=value`."""
    params: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise InvalidInput(f"--param {item}: write it as name=value")
        if name.strip() in params:
            raise InvalidInput(f"--param {name.strip()} is given twice; give it once")
        params[name.strip()] = value
    return params


def _draft(file: Path, text: str, wanted: str | None, arguments: Sequence[str]) -> JobDraft:
    if file.suffix == ".py":
        return choose_pipeline(run_file(file, text), file, wanted).draft()
    if wanted is not None:
        raise InvalidInput(f"{file.name}:{wanted}: only a Python file has several jobs to choose")
    if arguments:
        raise InvalidInput(
            f"{file.name}: it takes no arguments, but got {' '.join(arguments)}; "
            "use --param name=value"
        )
    if file.suffix in _YAML:
        return yaml_draft(
            text,
            file=file.name,
            default_name=file.stem,
            load_function=_FunctionFiles(file.parent).function,
        )
    return script_draft(text, file=file.name, default_name=file.stem)


class _FunctionFiles:
    """Python files that a YAML job takes functions from; each runs once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._modules: dict[Path, ModuleType] = {}

    def function(self, reference: str) -> UserFunction:
        path, colon, name = reference.rpartition(":")
        if not colon or not path.endswith(".py") or not name:
            raise refuse(
                f"function '{reference}'", "it does not name a function", "write FILE.py:function"
            )
        file = self._directory / path
        if file not in self._modules:
            self._modules[file] = run_file(file, read_job_file(file))
        return function_in(self._modules[file], name, reference)


def _split(target: str) -> tuple[Path, str | None]:
    if not Path(target).exists():
        path, colon, wanted = target.rpartition(":")
        if colon and wanted.isprintable() and path.endswith((".py", *_YAML, ".sql")):
            return Path(path), wanted
    return Path(target), None


def read_job_file(file: Path) -> str:
    if file.is_dir():
        raise InvalidInput(f"{file}: this is a directory; name a .py, .yml or .sql file in it")
    if file.suffix not in {".py", ".sql", *_YAML}:
        raise InvalidInput(
            f"{file}: a job is a .py, .yml, .yaml or .sql file, and this is none of them"
        )
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{file}: there is no such file (looked in {Path.cwd()})", file=str(file)
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file}: it is not text in UTF-8; save it as UTF-8") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"{file}: it cannot be read: {reason}") from error
