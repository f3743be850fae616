"""Every example of docs/clients.md runs, in order, against real agents and brokers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from brokers.client import AsyncSubscriber, NotAuthorised, Publisher, Subscriber
from tests.support.agent_processes import ROOT, World
from tests.support.blind import READING, BlindOrganisation, clinic
from tests.support.data_plane import wait_until

pytestmark = pytest.mark.activemq

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
FOUND = re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ON_REQUEST = [text for _, text in FOUND if ".filter_key(" in text]
EXAMPLES = [(kind, text) for kind, text in FOUND if text not in ON_REQUEST]


@pytest.fixture
def world(
    tmp_path: Path, brokers_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file)
    (tmp_path / "profiles").mkdir()
    for name, short in (("airport", "p-airport"), ("united", "p-ua"), ("kiosk", "p-kiosk")):
        (tmp_path / "profiles" / name).symlink_to(made.profile(short))
    monkeypatch.chdir(tmp_path)
    yield made
    made.close()


def run_shell(text: str, folder: Path) -> str:
    command = f'policyctl() {{ "{sys.executable}" -m brokers.policyctl "$@"; }}\n{text}'
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout


def test_the_examples_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert [kind for kind, _ in EXAMPLES].count("python") == 9
    world.start()
    # Subscriptions are durable: what examples publish is there for those that read.
    with Subscriber("profiles/united") as subscriber:
        subscriber.subscribe("Flight", "delay > 120", timeout=20)
    names: dict[str, Any] = {}
    shell: list[str] = []
    for kind, text in EXAMPLES:
        if "def store" in text:
            with Publisher("profiles/airport") as publisher:
                stored = publisher.publish("Flight", {"carrier": "UA", "delay": 500}, timeout=20)
        if kind == "python":
            exec(compile(text, "docs/clients.md", "exec"), names)
        else:
            shell.append(run_shell(text, world.folder))
    said = capsys.readouterr().out
    assert "Flight 130 {}" in said
    assert len(names["accepted"]) == 20
    assert list(names["table"]) == [stored.id]
    assert names["handled"] == 1
    assert "no policy permits it: not-authorised" in said
    assert "{'carrier': 'UA', 'delay': 9}" in said
    assert "('flights',)" in said
    (out,) = shell
    told, kept, *events = map(json.loads, out.splitlines())
    assert (told["accepted"], kept["kept"]) == (True, True)
    assert sorted(event["attributes"]["delay"] for event in events) == [130, 140]


def test_the_example_of_keys_on_request_runs(
    tmp_path: Path,
    brokers_file: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = ON_REQUEST
    world = World.make(tmp_path, brokers_file, clinic)
    try:
        organisation = world.organisation
        assert isinstance(organisation, BlindOrganisation)
        organisation.by_filters.add(world.name("p-nurse"))
        (tmp_path / "profiles").mkdir()
        display = tmp_path / "profiles" / "ward-display"
        display.symlink_to(world.profile("p-nurse"))
        monkeypatch.chdir(tmp_path)
        world.start()
        with Subscriber(display) as subscriber:
            subscriber.subscribe("Reading", 'ward == "north"', timeout=20)
        device = world.publisher("p-device")
        device.wait_ready(20)

        def publish_once_it_reads() -> None:
            # What came before a key was ever asked for would be opened without it.
            wait_until((display / "state" / "filter-keys").exists, "the key", 60)
            device.publish("Reading", READING, timeout=20)

        names: dict[str, Any] = {}
        with ThreadPoolExecutor(1) as beside:
            published = beside.submit(publish_once_it_reads)
            exec(compile(example, "docs/clients.md", "exec"), names)
            published.result()
        assert names["key"].epochs == (1,)
        said = capsys.readouterr().out
        assert f"refused: {world.name('p-nurse')} may not read patient\n" in said
        assert "\n171 not-permitted\n" in said
        asyncio.run(_on_asyncio(display))
    finally:
        world.close()


async def _on_asyncio(folder: Path) -> None:
    async with AsyncSubscriber(folder) as subscriber:
        await subscriber.wait_ready(30)
        assert [each.attributes for each in subscriber.filter_keys] == [("pulse",)]
        with pytest.raises(NotAuthorised, match="may not read patient"):
            await subscriber.filter_key("Reading", ["patient"], timeout=20)
        held = await subscriber.filter_key("Reading", ["pulse"], timeout=20)
        await subscriber.forget_filter_key("Reading", held.attributes)
        assert subscriber.filter_keys == ()
