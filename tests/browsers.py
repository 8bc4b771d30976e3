"""A headless Chromium for tests of pages; they skip where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1600,1000",
    "--force-color-profile=srgb",
)


@contextmanager
def headless(*more_flags: str) -> Iterator[Any]:
    """A driver of Selenium, ended with the context."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("Chromium and its driver are not installed")
    options = Options()
    options.binary_location = binary
    for flag in (*_FLAGS, *more_flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield made
    finally:
        made.quit()
