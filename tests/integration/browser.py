"""The system's Chromium, driven by Playwright, for tests of web pages."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no chromium on the path; install the system package (apt: chromium)",
)
