"""Manifests on disk."""

from stoker.savepoints.manifest import decode_manifest, encode_manifest

FIRST = b"""{
  "savepoint_id": "0d4e5f", "kind": "savepoint", "job_id": "1a", "job_name": "words",
  "created_at": 1700000000000, "version": 1,
  "queries": [{"region": "out", "directory": "queries/out", "query_id": "q", "batch_id": 4,
    "pending": true, "watermark_ms": 5, "offsets": ["{\\"logOffset\\":3}", null],
    "shuffle_partitions": 2, "state_provider": "RocksDBStateStoreProvider",
    "operators": [{"id": 0, "name": "stateStoreSave", "partitions": 2, "stores": ["default"]}]}],
  "files": [{"path": "queries/out/commits/4", "size": 10, "sha256": "ab"}]
}"""


def test_a_manifest_of_the_first_version_is_still_read():
    manifest = decode_manifest(FIRST, "/saved/one")
    assert manifest.batches == {"out": 4}
    assert manifest.size == 10
    (query,) = manifest.queries
    assert query.pending
    assert query.offsets == ('{"logOffset":3}', None)
    assert manifest.files_of(query) == manifest.files


def test_a_manifest_is_read_back_and_is_legible():
    manifest = decode_manifest(FIRST, "/saved/one")
    written = encode_manifest(manifest)
    assert decode_manifest(written, "/saved/one") == manifest
    assert b'\n  "savepoint_id": "0d4e5f",\n' in written
