"""What a list of requirements may name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from stoker.engine.classic.requirement_lists import packages_in, relative_paths


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


HASH = "a" * 64


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("thing", "thing"),
        ("thing == 1.0  # the newest", "thing==1.0"),
        ("thing[a,b]>=1,<2 ; python_version > '3'", 'thing[a,b]<2,>=1; python_version > "3"'),
        (f"thing==1.0 --hash=sha256:{HASH}", f"thing==1.0 --hash=sha256:{HASH}"),
        (
            f"thing==1.0 \\\n    --hash=sha256:{HASH} \\\n    --hash=sha256:{HASH}",
            f"thing==1.0 --hash=sha256:{HASH} --hash=sha256:{HASH}",
        ),
        ("thing \\", "thing"),
    ],
)
def test_packages_with_versions_markers_and_hashes_are_understood(line: str, package: str) -> None:
    assert packages_in(f"# needs\n\n{line}\n") == ([package], [])


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://evil.example/simple",
        "-i https://evil.example/simple",
        "--extra-index-url=https://evil.example/simple",
        "--find-links /tmp",
        "--trusted-host evil.example",
        "--no-binary :all:",
        "-e /home/somebody/thing",
        "-r /etc/passwd",
        "-c /etc/passwd",
        "thing @ file:///tmp/thing-1.0.tar.gz",
        "thing @ https://evil.example/thing-1.0.tar.gz",
        "https://evil.example/thing-1.0.tar.gz",
        "git+https://evil.example/thing",
        "file:/tmp/thing",
        "/tmp/thing-1.0-py3-none-any.whl",
        "./thing",
        "${HOME}/thing",
        'thing --config-settings="--build-option=x"',
        "thing --global-option=x",
        "--pre",
        "-\\\nr /etc/passwd",
    ],
)
def test_whatever_else_a_list_names_is_told_with_its_line(line: str) -> None:
    packages, others = packages_in(f"first==1\n{line}\nlast==2\n")
    assert packages == ["first==1", "last==2"]
    assert len(others) == 1
    assert others[0].startswith("line 2: ")


@given(st.text(max_size=80))
def test_nothing_that_is_kept_names_a_place(text: str) -> None:
    packages, _ = packages_in(text)
    for package in packages:
        requirement = Requirement(package.partition(" --hash=")[0])
        assert requirement.url is None
        assert "\n" not in package
        assert not package.startswith("-")
