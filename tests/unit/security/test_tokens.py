"""Stored tokens, and how a token is recognized."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.errors import InvalidInput, InvalidOption, NotFound
from stoker.security import tokens
from stoker.security.tokens import Role, Token, TokenFile, find, hash_of, text_of


def token(name: str, secret: str, *, token_id: str = "", expires_ms: int | None = None) -> Token:
    token_id = token_id or name
    return Token(
        id=token_id,
        name=name,
        role=Role.READ,
        sha256=hash_of(text_of(token_id, secret)),
        created_ms=0,
        expires_ms=expires_ms,
    )


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json")


def test_a_token_is_recognized_by_its_text_alone(file: TokenFile, tmp_path: Path) -> None:
    file.add(token("a", "first"))
    file.add(token("b", "second_with_underscore"))
    found = find(file.tokens, text_of("b", "second_with_underscore"))
    assert found is not None
    assert found.name == "b"
    assert "second_with_underscore" not in (tmp_path / "tokens.json").read_text()


@given(st.text())
def test_other_texts_are_not_accepted_as_tokens(text: str) -> None:
    assert find((token("a", "x" * 43),), text) is None


def test_the_secret_of_one_token_does_not_fit_another_id() -> None:
    assert find((token("a", "one"), token("b", "two")), text_of("a", "two")) is None


def test_only_the_owner_can_read_the_file(file: TokenFile, tmp_path: Path) -> None:
    file.add(token("a", "secret"))
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


def test_a_change_by_another_process_takes_effect_at_once(tmp_path: Path) -> None:
    ours, theirs = TokenFile(tmp_path / "t.json"), TokenFile(tmp_path / "t.json")
    assert ours.tokens == ()
    theirs.add(token("a", "secret"))
    assert [each.name for each in ours.tokens] == ["a"]
    theirs.revoke("a")
    assert ours.tokens == ()


def test_token_names_are_unique(file: TokenFile) -> None:
    file.add(token("a", "secret"))
    with pytest.raises(InvalidInput, match="there is a token named a already"):
        file.add(token("a", "other", token_id="c"))


def test_revoking_an_unknown_token_is_an_error(file: TokenFile) -> None:
    with pytest.raises(NotFound, match="there is no token nightly"):
        file.revoke("nightly")


def test_a_damaged_token_file_grants_no_access(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"version": 1, "tok')
    with pytest.raises(InvalidOption, match="is not a file of tokens"):
        _ = TokenFile(tmp_path / "t.json").tokens


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"version": 99, "tokens": []}')
    with pytest.raises(InvalidOption, match="newer Stoker"):
        _ = TokenFile(tmp_path / "t.json").tokens


def test_an_incomplete_write_is_ignored(file: TokenFile, tmp_path: Path) -> None:
    (tmp_path / ".tokens.json.new").write_text("half")
    file.add(token("a", "secret"))
    assert [each.name for each in file.tokens] == ["a"]
    assert not os.path.exists(tmp_path / ".tokens.json.new")


@pytest.mark.parametrize("change", ["add", "revoke"])
def test_a_change_that_cannot_be_written_is_refused_and_has_no_effect(
    file: TokenFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file.add(token("a", "secret"))

    def fail(*args: object, **keywords: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tokens, "write_atomically", fail)
    with pytest.raises(
        InvalidInput, match=r"tokens\.json cannot be written: No space left on device"
    ):
        file.add(token("b", "other")) if change == "add" else file.revoke("a")
    assert [each.name for each in TokenFile(tmp_path / "tokens.json").tokens] == ["a"]


def test_a_token_expires_at_its_time() -> None:
    assert token("a", "s", expires_ms=100).is_expired(100)
    assert not token("a", "s", expires_ms=100).is_expired(99)
    assert not token("a", "s").is_expired(10**15)


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a file away")
def test_a_file_that_root_changes_stays_readable_for_its_owner(
    file: TokenFile, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.json"
    file.add(token("a", "secret"))
    os.chown(path, 65534, 65533)
    path.chmod(0o640)
    file.add(token("b", "secret"))
    status = path.stat()
    assert (status.st_uid, status.st_gid) == (65534, 65533)
    assert stat.S_IMODE(status.st_mode) == 0o640


def test_a_name_that_looks_like_an_id_is_refused(file: TokenFile) -> None:
    """A token is revoked by its name or its id, and must not be mistaken for another one."""
    with pytest.raises(InvalidInput, match="0123abcd looks like the id of a token"):
        file.add(token("0123abcd", "secret", token_id="x"))
    assert file.tokens == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a file away")
@pytest.mark.parametrize(
    ("owner", "expected", "mode"),
    [
        ((65534, 65533), (65534, 65533), 0o600),
        ((0, 65533), (0, 65533), 0o640),
        ((0, 0), (0, 0), 0o600),
    ],
)
def test_a_file_that_root_makes_is_for_the_user_of_its_directory(
    tmp_path: Path, owner: tuple[int, int], expected: tuple[int, int], mode: int
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, *owner)
    TokenFile(place / "tokens.json").add(token("a", "secret"))
    for name in ("tokens.json", "tokens.lock"):
        status = (place / name).stat()
        assert (status.st_uid, status.st_gid) == expected, name
    assert stat.S_IMODE((place / "tokens.json").stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a file away")
def test_root_gives_away_no_file_to_which_somebody_has_set_a_link(tmp_path: Path) -> None:
    """Who owns the directory could otherwise get any file of the machine."""
    precious = tmp_path / "precious"
    precious.write_text("of root")
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, 65534, 65533)
    for link in (os.symlink, os.link):
        link(precious, place / "tokens.lock")
        with suppress(InvalidInput):
            TokenFile(place / "tokens.json").add(token(link.__name__, "secret"))
        (place / "tokens.lock").unlink()
    assert (precious.stat().st_uid, precious.stat().st_gid) == (0, 0)
