"""A console in processes of its own, and a browser in front of it.

Django's live server cannot be used: it hangs on server-sent events. So uvicorn serves a seeded
control plane from a folder of its own, exactly as in production.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.migrated import migrated
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import REPOSITORY, Running

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
PASSWORD = "correct horse battery staple"
AXE = REPOSITORY / "node_modules" / "axe-core" / "axe.min.js"
_PATIENCE = 60_000
"""Milliseconds that a page may take on a slow and busy machine."""
expect.set_options(timeout=_PATIENCE)


class Stage:
    """The process that changes the database behind the browser's back."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.stage"],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready"

    def __call__(self, command: str, *arguments: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join([command, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert answer == "ok", answer

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate(timeout=120)


@dataclass
class Site:
    """A running console.

    Args:
        address: where it answers.
        environment: what its processes were started with.
        stage: changes the database.
    """

    address: str
    environment: dict[str, str]
    stage: Stage
    signed_in: dict[str, str] = field(default_factory=dict)


@dataclass
class Heard:
    """What a page did that it should not: errors in the console, requests to elsewhere."""

    address: str
    problems: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        page.on("console", self._message)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._request)

    def _message(self, message: object) -> None:
        # The browser itself notes when the server refuses a form; tests expect those refusals.
        refused = re.search(r"status of (409|422)\b", message.text)
        if message.type in {"error", "warning"} and not refused:
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, request: object) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.problems.append(f"outside: {request.url}")


def serve(environment: dict[str, str], log: Path, port: int | None = None) -> tuple[Running, str]:
    """Start uvicorn (on a free port unless told otherwise) and wait until it answers."""
    port = port or free_port()
    command = [sys.executable, "-m", "uvicorn", "adminapp.config.asgi:application"]
    server = Running(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--no-access-log"],
        log=log,
        environment=environment,
    )
    wait_until(lambda: _healthy(server, port), seconds=180, what="the console")
    return server, f"http://127.0.0.1:{port}"


def _healthy(server: Running, port: int) -> bool:
    assert server.process.poll() is None, server.text()
    if not answers(port):
        return False
    with urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as response:
        return response.status == 200


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    # A Unix socket's path has room for about 100 characters.
    socket = Path(os.environ["PORTCULLIS_VAR"]) / "e2e-authority.sock"
    environment = {
        **os.environ,
        "PORTCULLIS_ENV": "test",
        "PORTCULLIS_VAR": str(folder),
        "PORTCULLIS_AUTHORITY_SOCKET": str(socket),
        # People sign in once for all of these tests, which may take long on a slow machine.
        "PORTCULLIS_STEP_UP_SECONDS": "86400",
    }
    _front_end()
    migrated(folder / "portcullis.sqlite3")
    anchors = str(folder / "anchors.json")
    state = str(folder / "authority")
    _run(environment, "-m", "tasks.authority", "init", "--state", state, "--anchors", anchors)
    authority = Running(
        [sys.executable, "-m", "tasks.authority", "run", "--state", state, "--socket", str(socket)],
        log=folder / "authority.log",
        environment=environment,
    )
    try:
        authority.wait_for_text("answering", seconds=180)
        stage = Stage(environment)
        stage("seed")
        server, address = serve(environment, folder / "server.log")
        try:
            yield Site(address, environment, stage)
        finally:
            server.stop()
            stage.close()
    finally:
        authority.stop()


def _front_end() -> None:
    """The parts that npm installed, copied to where the console serves them."""
    _run(dict(os.environ), "-m", "adminapp.console.assets")


def _run(environment: dict[str, str], *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Not for the whole run: while Playwright is up its event loop counts as running in this thread, and
# no test elsewhere could start one of its own.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def heard(site: Site) -> Iterator[Heard]:
    """Fails the test when a page complained or asked elsewhere."""
    found = Heard(site.address)
    yield found
    assert found.problems == []


@pytest.fixture
def open_as(site: Site, chromium: Browser, heard: Heard) -> Iterator[Callable[..., Page]]:
    """`open_as("mona")` gives a page of somebody who is signed in; `""` of nobody."""
    contexts: list[BrowserContext] = []

    def opened(name: str = "", **options: object) -> Page:
        context = chromium.new_context(
            base_url=site.address,
            viewport={"width": 1440, "height": 900},
            # Colours that are still in transition are no fault of a page.
            reduced_motion="reduce",
            storage_state=_state(site, chromium, name) if name else None,
            **options,
        )
        context.set_default_timeout(_PATIENCE)
        contexts.append(context)
        page = context.new_page()
        heard.listen(page)
        return page

    yield opened
    for context in contexts:
        context.close()


def _state(site: Site, browser: Browser, name: str) -> str:
    """Signed in once a person and run: passwords are slow to check, on purpose."""
    if name not in site.signed_in:
        file = Path(site.environment["PORTCULLIS_VAR"]) / f"{name}.json"
        context = browser.new_context(base_url=site.address)
        context.set_default_timeout(_PATIENCE)
        sign_in(context.new_page(), name)
        context.storage_state(path=file)
        context.close()
        site.signed_in[name] = str(file)
    return site.signed_in[name]


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.goto("/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    # Passwords are slow to check: whoever leaves before the answer was never counted.
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
