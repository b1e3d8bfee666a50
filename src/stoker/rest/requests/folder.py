"""Where the files of one request lie until it is answered."""

import shutil
import tempfile
from pathlib import Path


class RequestFolder:
    """Made with the first file: most submissions have none, and a folder costs as much as they."""

    def __init__(self, above: Path | None) -> None:
        self._above = above
        self._path: Path | None = None

    def file(self, name: str) -> Path:
        if self._path is None:
            if self._above is not None:
                self._above.mkdir(parents=True, exist_ok=True)
            self._path = Path(tempfile.mkdtemp(prefix="stoker-upload-", dir=self._above))
        return self._path / name

    def remove(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
