"""A real browser for tests of pages: Chromium of the system, driven by Playwright."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None,
    reason="there is no chromium on the path; a package of the system has it (apt: chromium)",
)
