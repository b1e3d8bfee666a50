"""Every bad input ends in a message that says what is wrong, where, and what to do."""

import os
import socket
from pathlib import Path

import pytest

GOOD = """
sources:
  numbers: {format: json, path: in}
sinks:
  copies: {input: numbers, format: json, path: out}
"""

PIPELINE = "1 / 0; from stoker import Pipeline\n"


@pytest.fixture
def job(tmp_path: Path):
    def write(text: str, name: str = "job.yml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def refused(result, *fragments: str, code: int) -> None:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    missing = [fragment for fragment in fragments if fragment not in result.stderr]
    assert not missing, result.stderr


def test_a_missing_file_is_named(stoker) -> None:
    refused(stoker("run", "nowhere.py"), "nowhere.py: there is no such file", code=1)


def test_a_file_of_an_unknown_kind_is_refused(stoker, job) -> None:
    result = stoker("info", job("hello", "job.txt"))
    refused(result, "job.txt", "a job is a .py, .yml, .yaml or .sql file", code=1)


def test_a_mistyped_key_of_a_yaml_job_is_named(stoker, job) -> None:
    result = stoker("info", job(GOOD.replace("sinks", "snks")))
    refused(result, "snks", "sinks", code=1)


def test_all_faults_of_a_job_are_listed(stoker, job) -> None:
    text = "sources:\n  a: {format: json, path: in}\nsinks:\n  b: {input: c, format: json}\n"
    result = stoker("info", job(text))
    faults = (
        "\n  - job.yml line 4: sink 'b': unknown input 'c' (known are: a)",
        "\n  - job.yml line 2: source 'a': it is not used by any sink",
        "\n  - job.yml line 4: sink 'b': format json needs a path",
    )
    refused(result, "Error: the job cannot be accepted:", *faults, code=1)


@pytest.mark.parametrize(("source", "more"), [("1 / 0\n", ["--pipeline"]), (PIPELINE, [])])
def test_a_pipeline_that_raises_is_reported_with_the_line(
    stoker, job, source: str, more: list[str]
) -> None:
    result = stoker("info", job(source, "job.py"), *more)
    refused(result, "job.py line 1: the file raised ZeroDivisionError", code=1)


@pytest.mark.parametrize("more", [[], ["--program"], ["--pipeline"]])
def test_a_python_syntax_error_is_reported_with_line_and_column(
    stoker, job, more: list[str]
) -> None:
    result = stoker("run", job("x = 1\ny = (\n", "job.py"), *more)
    refused(result, "job.py line 2 column 5: this is not Python", code=1)


def test_info_does_not_run_a_program(stoker, job) -> None:
    result = stoker("info", job("1 / 0\n", "job.py"), "a", "b c")
    assert result.exit_code == 0
    assert "program: job.py a 'b c'" in result.stdout


def test_parameters_are_refused_for_a_program(stoker, job) -> None:
    result = stoker("info", job("1 / 0\n", "job.py"), "--param", "day=1")
    refused(result, "a program has no parameters", "--param day", code=1)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--env", "A=1"], "--env A is for programs"),
        (["--requirements", "needs.txt"], "job.yml: --requirements is for programs"),
        (["-pypath", "lib"], "--pyPythonPath) is for programs"),
        (
            ["--requirements", "needs.txt", "--env", "A=1"],
            "--requirements and --env A are for programs",
        ),
    ],
)
def test_options_only_for_programs_are_refused_for_pipelines(
    stoker, job, more: list[str], named: str, monkeypatch, tmp_path
) -> None:
    """The message names the option that was given, and no other."""
    monkeypatch.chdir(tmp_path)
    job("", "needs.txt")
    result = stoker("info", job(GOOD), *more)
    refused(result, named, "--wheel FILE.whl", code=1)
    assert ("--pyPythonPath" in result.stderr) == ("-pypath" in more)


@pytest.mark.parametrize(
    ("file", "text", "remedy"),
    [
        ("q.sql", "select 1", "declare it at the top of the script: -- param: x, and use it as :x"),
        ("job.yml", GOOD, "declare it in the file: parameters: {x: null}"),
    ],
)
def test_a_parameter_that_is_not_declared_is_refused_with_how_to_declare_it(
    stoker, job, file: str, text: str, remedy: str
) -> None:
    refused(stoker("info", job(text, file), "--param", "x=1"), remedy, code=1)


def test_a_script_declares_its_parameter_as_the_refusal_says(stoker, job) -> None:
    script = job("-- param: x\nselect :x, '${x}'", "q.sql")
    assert stoker("info", script, "--param", "x=1").exit_code == 0


def test_an_unknown_option_may_be_meant_for_the_program(stoker, job) -> None:
    program = job("import sys\n", "prog.py")
    result = stoker("info", program, "--flag", "3")
    hint = f"info {program} -- --flag"
    refused(result, "No such option '--flag'", hint, code=2)
    assert stoker("info", program, "--", "--flag", "3").exit_code == 0


def test_a_missing_requirements_file_is_named(stoker, job) -> None:
    result = stoker("run", job("", "job.py"), "--requirements", "no.txt")
    refused(result, "no.txt", "does not exist", code=2)


def test_an_unknown_engine_is_refused_with_the_known_ones(stoker, job) -> None:
    refused(stoker("run", job(GOOD), "--engine", "flink"), "connect", "classic", "auto", code=2)


@pytest.mark.parametrize("param", ["day", "=x"])
def test_a_parameter_without_name_or_value_is_refused(stoker, job, param: str) -> None:
    result = stoker("run", job(GOOD), "--param", param)
    refused(result, param, "name=value", code=2)


def test_a_parameter_that_the_job_does_not_have_is_refused(stoker, job) -> None:
    result = stoker("info", job(GOOD), "--param", "day=1")
    refused(result, "day", code=1)


def test_a_setting_without_value_is_refused(stoker, job) -> None:
    refused(stoker("run", job(GOOD), "--conf", "spark.x"), "spark.x: write it as KEY=VALUE", code=2)


def test_a_variable_that_is_not_set_here_is_refused(stoker, job, monkeypatch) -> None:
    monkeypatch.delenv("DB_PASSWORD", raising=False)
    result = stoker("run", job(GOOD), "--env", "DB_PASSWORD")
    refused(result, "no variable DB_PASSWORD in this environment", "DB_PASSWORD=VALUE", code=2)


def test_a_malformed_job_id_is_refused(stoker, job) -> None:
    refused(stoker("run", job(GOOD), "--job-id", "7"), "32 digits", code=2)


def test_a_missing_artifact_is_named(stoker, job) -> None:
    refused(stoker("run", job(GOOD), "--wheel", "x.whl"), "x.whl", "does not exist", code=2)


def test_an_unknown_option_is_refused_with_a_suggestion(stoker) -> None:
    result = stoker("list", "-D", "rest.retry.dely=1 s")
    refused(result, "there is no option rest.retry.dely; did you mean 'rest.retry.delay'?", code=2)


def test_an_unknown_variable_is_refused_with_a_suggestion(stoker, monkeypatch) -> None:
    monkeypatch.setenv("STOKER_REST_RETRY_DELAI", "1 s")
    refused(stoker("list"), "did you mean 'STOKER_REST_RETRY_DELAY'?", code=2)


def test_a_missing_configuration_file_is_named(stoker) -> None:
    refused(stoker("list", "--config", "no.yml"), "no.yml", "does not exist", code=2)


def test_without_a_known_master_the_error_says_how_to_name_one(stoker) -> None:
    refused(stoker("list"), "-m URL", "STOKER_MASTER", "stoker cluster up", code=1)


def test_an_unreachable_master_is_named(stoker) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = stoker("list", "-m", url, "-D", "rest.retry.max-attempts=0")
    refused(result, f"cannot reach a Stoker master at {url}", "connection refused", code=1)


@pytest.mark.parametrize("place", ["stoker.yml", "STOKER_MASTER"])
def test_an_unreachable_master_is_reported_with_the_place_that_names_it(
    stoker, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        if place == "stoker.yml":
            Path("stoker.yml").write_text(f"rest.retry.max-attempts: 0\nclient.master: {url}\n")
            named = f"{Path.cwd() / 'stoker.yml'}:2"
        else:
            monkeypatch.setenv("STOKER_MASTER", url)
            named = "$STOKER_MASTER"
        result = stoker("list")
    refused(result, f"at {url} (named by {named}): connection refused", code=1)


def test_a_master_that_is_not_a_url_is_refused(stoker) -> None:
    refused(stoker("list", "-m", "ftp://x"), "http://127.0.0.1:8081", "ftp://x", code=2)


def test_a_detached_job_needs_a_running_cluster(stoker, job) -> None:
    refused(stoker("run", "-d", job(GOOD)), "stoker cluster up", code=1)


def test_a_port_in_use_is_named_with_its_option(stoker, tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        result = stoker(
            "master",
            *("-D", f"rest.bind-port={port}"),
            *("-D", f"high-availability.storageDir={tmp_path}/storage"),
            *("-D", f"process.working-dir={tmp_path}/work"),
        )
    refused(result, f"tried {port}", "rest.bind-port", code=1)


def test_an_unusable_working_directory_is_named_with_its_option(stoker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = stoker("master", "-D", f"process.working-dir={tmp_path}/file")
    refused(result, f"{tmp_path}/file", "process.working-dir", code=1)


def test_an_unknown_log_level_is_refused_with_the_known_ones(stoker) -> None:
    result = stoker("master", "-D", "process.log-level=LOUD")
    refused(result, "LOUD", "DEBUG, INFO, WARNING, ERROR", code=2)


def test_missing_examples_are_reported_with_a_remedy(stoker, tmp_path: Path) -> None:
    refused(stoker("demo", "--examples", tmp_path), str(tmp_path), "--examples DIR", code=1)


def test_an_unusable_directory_for_the_local_cluster_is_refused(stoker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = stoker("cluster", "up", "--dir", tmp_path / "file" / "x")
    refused(result, "cannot be used", "--dir", code=1)


def test_a_command_reports_that_its_current_directory_was_removed(stoker, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    (tmp_path / "script.py").write_text("print(1)\n")
    os.chdir(gone)
    gone.rmdir()
    refused(stoker("run", tmp_path / "script.py"), "your current directory was removed", code=1)
