"""From where the packages of jobs come."""

from pathlib import Path

import pytest

from stoker.core.errors import InvalidOption
from stoker.engine.classic.environments import environment_name
from stoker.engine.classic.options import ClassicOptions
from stoker.engine.classic.package_sources import PackageSources, package_sources

INHERITED = {"PATH": "/bin", "PIP_EXTRA_INDEX_URL": "https://other", "UV_INDEX": "https://other"}


def test_without_a_decision_installers_work_as_they_are_configured() -> None:
    sources = package_sources(ClassicOptions())
    assert sources.arguments() == []
    assert sources.variables(INHERITED) == INHERITED
    assert sources.digest() == b""


def test_an_index_replaces_all_others_and_stands_on_no_command_line() -> None:
    """Its URL may hold a password, and every user can read the arguments of a process."""
    url = "https://user:secret@pypi.example.org/simple"
    sources = package_sources(ClassicOptions(index_url=url, packages_only=True))
    assert "secret" not in " ".join(sources.arguments())
    variables = sources.variables(INHERITED)
    assert variables["PIP_INDEX_URL"] == variables["UV_DEFAULT_INDEX"] == url
    assert "https://other" not in variables.values()
    assert variables["PATH"] == "/bin"


def test_a_cluster_may_install_wheels_of_one_directory_only(tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("thing==1.0")
    sources = package_sources(
        ClassicOptions(
            index_url="no-index",
            find_links=("/wheels",),
            constraints=constraints,
            source_distributions=False,
            packages_only=True,
        )
    )
    expected = ["--find-links", "/wheels", "--no-index", "--constraint", str(constraints)]
    assert sources.arguments() == [*expected, "--only-binary", ":all:"]


def test_an_environment_from_other_sources_is_another_one(tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("thing==1.0")
    names = {environment_name(b"thing", [])}
    for sources in (
        PackageSources(index_url="https://a"),
        PackageSources(index_url="https://b"),
        PackageSources(find_links=("/wheels",)),
        PackageSources(source_distributions=False),
        PackageSources(packages_only=True),
        PackageSources(constraints=constraints),
    ):
        names.add(environment_name(b"thing", [], sources.digest()))
    constraints.write_text("thing==2.0")
    names.add(environment_name(b"thing", [], PackageSources(constraints=constraints).digest()))
    assert len(names) == 8


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"index_url": "pypi.example.org"}, "index-url is the URL"),
        ({"index_url": "no-index"}, "find-links must say"),
        ({"index_url": "https://a"}, "packages-only to true"),
        ({"constraints": Path("/c")}, "packages-only to true"),
    ],
)
def test_decisions_that_do_not_hold_are_refused(settings: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        ClassicOptions(**settings)  # type: ignore[arg-type]


def test_constraints_that_cannot_be_read_are_refused_at_the_start(tmp_path: Path) -> None:
    options = ClassicOptions(constraints=tmp_path / "absent", packages_only=True)
    with pytest.raises(InvalidOption, match=r"absent cannot be read: No such file"):
        package_sources(options)
