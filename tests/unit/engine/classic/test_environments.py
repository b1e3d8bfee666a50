"""Requirements that a task executor could not find."""

import pytest

from stoker.engine.classic.environments import relative_paths


@pytest.mark.parametrize(
    "line",
    [
        "./dist/thing-1.0-py3-none-any.whl",
        "../thing",
        "dist/thing-1.0.tar.gz ; python_version > '3'",
        "-r more.txt",
        "--constraint=limits.txt",
        "-e .",
    ],
)
def test_a_relative_path_is_named_with_its_line(line: str) -> None:
    [told] = relative_paths(f"# what it needs\nrequests==2.31\n{line}\n")
    assert told.startswith("line 3: ")
    assert told.removeprefix("line 3: ") in line.replace("=", " ", 1)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# ./a comment",
        "requests[socks]>=2.31  # ./not a path",
        "/shared/thing-1.0-py3-none-any.whl",
        "https://example.org/thing-1.0-py3-none-any.whl",
        "thing @ file:///shared/thing-1.0-py3-none-any.whl",
        "-r /shared/more.txt",
        "--index-url https://example.org/simple",
        "--no-deps",
    ],
)
def test_absolute_paths_and_urls_are_accepted(line: str) -> None:
    assert relative_paths(line) == []
