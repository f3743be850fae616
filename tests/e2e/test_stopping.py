"""A server with open pages stops at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Heard, Site, serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_uvicorn_stops_promptly_with_open_streams_and_pages_find_it_again(
    site: Site, open_as: Callable[..., Page], heard: Heard, tmp_path: Path
) -> None:
    server, address = serve(site.environment, tmp_path / "server.log")
    pages = [open_as("mona") for _ in range(3)]
    for page in pages:
        # The same session; only the port differs, and cookies know no ports.
        page.goto(f"{address}/agents/")
        page.wait_for_selector("[data-live-mark][data-state=live]")
    began = time.monotonic()
    server.stop(seconds=20)
    assert time.monotonic() - began < 5
    assert "Traceback" not in server.text()
    page = pages[0]
    page.wait_for_selector("[data-live-mark][data-state=lost]")
    assert "no connection" in page.locator("[data-live-mark]").inner_text()

    server, _ = serve(site.environment, tmp_path / "again.log", int(address.rpartition(":")[2]))
    try:
        page.wait_for_selector("[data-live-mark][data-state=live]", timeout=120_000)
    finally:
        server.stop()
    for page in pages:
        page.close()
    # That requests failed meanwhile is what this test is about.
    heard.problems.clear()
