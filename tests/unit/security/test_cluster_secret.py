"""The secret of a cluster: made once, for its user alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.core.errors import InvalidOption, StartupFailed
from stoker.security.cluster_secret import ClusterSecret, read_or_make_secret


def test_all_processes_of_a_cluster_use_the_secret_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "cluster-secret"
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: read_or_make_secret(path).key, range(32)))
    assert len(found) == 1
    assert len(found.pop()) == 32
    assert [each.name for each in tmp_path.iterdir()] == ["cluster-secret"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_clusters_have_different_secrets(tmp_path: Path) -> None:
    assert read_or_make_secret(tmp_path / "a") != read_or_make_secret(tmp_path / "b")


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o644])
def test_a_secret_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    read_or_make_secret(path)
    path.chmod(mode)
    with pytest.raises(InvalidOption, match=rf"chmod o= {path}"):
        read_or_make_secret(path)


@pytest.mark.parametrize("content", ["", "hunter2", "00" * 31, "é" * 64])
def test_a_damaged_secret_is_named_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InvalidOption, match=r"file .* holds no secret of a cluster") as refused:
        read_or_make_secret(path)
    assert not content or content not in refused.value.message


def test_a_place_without_permission_is_an_error_of_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StartupFailed, match=r"security\.internal\.secret-file"):
        read_or_make_secret(tmp_path / "file" / "secret")


def test_a_proof_is_good_for_its_facts_and_its_secret_alone() -> None:
    ours, other = ClusterSecret(b"a" * 32), ClusterSecret(b"b" * 32)
    proof = ours.prove("caller", "place", "1")
    assert ours.is_proven_by(proof, "caller", "place", "1")
    for facts in (("called", "place", "1"), ("caller", "place1", ""), ("caller", "place", "2")):
        assert not ours.is_proven_by(proof, *facts)
    assert not other.is_proven_by(proof, "caller", "place", "1")
    assert not ours.is_proven_by(b"", "caller", "place", "1")


def test_the_secret_is_not_shown_when_it_is_printed() -> None:
    assert "a" * 8 not in repr(ClusterSecret(b"a" * 32))
