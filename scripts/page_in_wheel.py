"""Hook of the build: a wheel contains the web page, or is not built."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PAGE = Path("src/stoker/web/static/index.html")


class PageInWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the page where a checkout lacks it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # What runs from a checkout shows the page as soon as `make web` has built it.
        if version == "editable" or self.target_name != "wheel":
            return
        page = Path(self.root, _PAGE)
        if page.is_file():
            return
        made = subprocess.run(["scripts/make-web", sys.executable], cwd=self.root, check=False)
        if made.returncode != 0 or not page.is_file():
            raise RuntimeError(
                "the web page could not be built (see above), so there is no wheel; install "
                "Node.js 20.19 or newer, or run `make web`, then try again"
            )
