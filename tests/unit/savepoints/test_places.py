"""Which places a request may name, and what is seen there."""

import os
from pathlib import Path

import pytest

from stoker.core.errors import Forbidden, InvalidInput, InvalidOption, NotFound
from stoker.savepoints.locations import locate, read_manifest
from stoker.savepoints.manifest import MANIFEST, SavepointManifest, encode_manifest
from stoker.savepoints.places import Places, foreign_places
from stoker.security.tokens import Role, Token, TokenFile, hash_of, text_of
from stoker.testing.rest import Master
from stoker.testing.sample_jobs import RUNNING

CONFIGURED = ("/data/savepoints", "file:///data/storage/", "s3://bucket/stoker")
PLACES = Places(configured=CONFIGURED, schemes=("HDFS",))


@pytest.mark.parametrize(
    "url",
    ["/anywhere", "file:///anywhere", "s3://other/place", "S3://other/place", "hdfs://name/place"],
)
def test_local_places_and_the_kinds_that_the_operator_named_are_opened(url: str) -> None:
    PLACES.open(url)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://127.0.0.1:1/a", "savepoint.allowed-schemes: ftp"),
        ("http://127.0.0.1:1/a", "of the kind http"),
        ("github://a:b@c/d", "of the kind github"),
        ("simplecache::s3://bucket/a", "of the kind simplecache"),
        ("s3://bucket/a::ftp://127.0.0.1/b", "chains several kinds"),
    ],
)
def test_other_kinds_of_storage_are_refused_before_anything_is_reached(
    url: str, reason: str
) -> None:
    for opens in (PLACES.open, PLACES.open_configured):
        with pytest.raises(Forbidden, match=reason):
            opens(url)


@pytest.mark.parametrize("url", ["relative/place", "local:///data", "file://host/data"])
def test_what_is_no_url_of_a_storage_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="is not a storage directory"):
        PLACES.open(url)


@pytest.mark.parametrize(
    ("url", "is_seen"),
    [
        ("/data/savepoints", True),
        ("/data/savepoints/one", True),
        ("//data/./savepoints/one/", True),
        ("file:///data/savepoints/one", True),
        ("file://localhost/data/savepoints", True),
        ("file:///data/storage/retained", True),
        ("s3://bucket/stoker/one", True),
        ("/data", False),
        ("/data/savepoints-of-others", False),
        ("/data/savepoints/../secret", False),
        ("file:///data/savepoints/%2e%2e/secret", False),
        ("s3://bucket/stoker/../secret", False),
        ("s3://bucket/stoker-of-others", False),
    ],
)
def test_a_reader_sees_only_what_is_below_the_configured_directories(
    url: str, is_seen: bool
) -> None:
    if is_seen:
        PLACES.check_configured(url)
        PLACES.open_configured(url)
        return
    with pytest.raises(Forbidden, match="role read"):
        PLACES.check_configured(url)
    with pytest.raises(Forbidden, match="role read"):
        PLACES.open_configured(url)


def manifest() -> bytes:
    return encode_manifest(
        SavepointManifest(
            savepoint_id="one",
            kind="savepoint",
            job_id=RUNNING,
            job_name="orders",
            created_at=1,
            queries=(),
            files=(),
        )
    )


def save(place: Path) -> Path:
    place.mkdir(parents=True)
    (place / MANIFEST).write_bytes(manifest())
    return place


async def test_no_link_leads_a_reader_out_of_the_configured_directories(tmp_path: Path) -> None:
    root = tmp_path / "savepoints"
    inside, outside = save(root / "inside"), save(tmp_path / "outside" / "one")
    (root / "link").symlink_to(outside)
    (root / "above").symlink_to(outside.parent)
    (root / "file").mkdir()
    (root / "file" / MANIFEST).symlink_to(outside / MANIFEST)
    (root / "alias").symlink_to(inside)
    places = foreign_places([str(root)], [])
    for path in ("inside", "alias"):
        assert (await read_manifest(locate(f"{root}/{path}", places.open_configured))).job_name
    for path in ("link", "above/one", "file"):
        with pytest.raises(InvalidInput, match="leads by a link out of"):
            await read_manifest(locate(f"{root}/{path}", places.open_configured))
        assert (await read_manifest(locate(f"{root}/{path}", places.open))).job_name


async def test_the_role_decides_which_places_are_shown(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    for role in Role:
        sha256 = hash_of(text_of(role.value, "secret"))
        file.add(Token(id=role.value, name=role.value, role=role, sha256=sha256, created_ms=0))
    ours, other = save(tmp_path / "savepoints" / "one"), save(tmp_path / "elsewhere" / "one")
    places = foreign_places([str(ours.parent)], [])
    async with Master(tokens=file, places=places).in_process() as http:

        async def status(role: str, path: str) -> int:
            bearer = {"authorization": f"Bearer {text_of(role, 'secret')}"}
            return (await http.get(path, headers=bearer)).status_code

        assert await status("read", f"/savepoints/show?path={ours}") == 200
        assert await status("read", f"/savepoints/show?path={other}") == 403
        assert await status("read", f"/savepoints?directory={other.parent}") == 403
        assert await status("operate", f"/savepoints/show?path={other}") == 200
        assert await status("operate", "/savepoints/show?path=ftp://127.0.0.1:1/a/b") == 403


async def test_a_manifest_without_an_end_is_refused(tmp_path: Path) -> None:
    pipe, device, large = (tmp_path / name for name in ("pipe", "device", "large"))
    for place in (pipe, device, large):
        place.mkdir()
    os.mkfifo(pipe / MANIFEST)
    (device / MANIFEST).symlink_to("/dev/zero")
    with (large / MANIFEST).open("wb") as file:
        file.truncate(2**40)
    open_place = foreign_places([], []).open
    for place, reason in (
        (pipe, "is not a regular file"),
        (device, "is not a regular file"),
        (large, "has more than 33554432 bytes"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            await read_manifest(locate(str(place), open_place))


async def test_an_absent_place_is_still_named(tmp_path: Path) -> None:
    places = foreign_places([], [])
    with pytest.raises(NotFound):
        await places.open(str(tmp_path / "absent")).read("one/manifest.json")
    assert os.listdir(tmp_path) == []
