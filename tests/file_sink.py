"""Reads the output of Spark's file sink as Spark does: only files in the log of the sink count."""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit


def committed_files(directory: Path, *, last_batch: int | None = None) -> set[Path]:
    """The files of all committed batches, or of those up to `last_batch`.

    Other files in the directory are leftovers of interrupted batches.
    """
    urls: set[str] = set()
    for entry in (directory / "_spark_metadata").glob("[0-9]*"):
        # A file that ends with .compact repeats the entries before it, and none of the later ones.
        if last_batch is None or int(entry.name.partition(".")[0]) <= last_batch:
            # The first line is the version of the log.
            urls |= {json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]}
    return {Path(unquote(urlsplit(url).path)) for url in urls}
