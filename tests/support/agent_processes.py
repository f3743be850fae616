"""Real agents and clients around real brokers, for tests: folders, processes, status pages."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.adapters.stomp import BrokerConfig, BrokersFile, StompTransport
from brokers.client import Event, Publisher, Subscriber, create_profile
from policyengine.bundles import audience
from tests.support.data_plane import (
    PATIENCE,
    ControlPlane,
    Organisation,
    airport,
    keys_document,
    wait_until,
)
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
QUIET_SECONDS = 1.0
"""What must not come, or comes twice, has come by then."""
_numbers = itertools.count(1)


@dataclass
class AgentProcess:
    """One `python -m brokers.agent run`."""

    name: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    command: list[str] = field(
        default_factory=lambda: [
            sys.executable, "-m", "brokers.agent", "run", "--config", "agent.toml",
        ]
    )  # fmt: skip

    def start(self) -> None:
        """Start the process; returns at once."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit status."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(180)
        finally:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def page(self, path: str) -> tuple[int, str]:
        """An answer of the status server: (status, text)."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def status(self) -> dict[str, Any]:
        """The status document, {} while it does not answer."""
        code, text = self.page("/status")
        return json.loads(text) if code == 200 else {}

    def domain(self, name: str) -> dict[str, Any]:
        """The status of one domain, {} if it is not known."""
        return self.status().get("domains", {}).get(name, {})

    def log(self) -> str:
        """Everything that it logged."""
        return (self.folder / "log").read_text()


@dataclass
class World:
    """An organisation whose agents are processes and whose clients are real.

    Args:
        folder: for all files.
        brokers_file: function: account -> brokers file.
        organisation: who is who.
    """

    folder: Path
    brokers_file: Callable[[str], Path]
    organisation: Organisation
    suffix: str
    others: list[Organisation] = field(default_factory=list)
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    _clients: list[Publisher | Subscriber] = field(default_factory=list)
    _control: ControlPlane | None = None

    @classmethod
    def make(
        cls,
        folder: Path,
        brokers_file: Callable[[str], Path],
        organise: Callable[..., Organisation] = airport,
        **options: Any,
    ) -> World:
        """An organisation with names of its own, nothing started."""
        suffix = f"-{os.getpid()}-{next(_numbers)}"
        world = cls(folder, brokers_file, organise(suffix=suffix, **options), suffix)
        world._write()
        return world

    @property
    def control(self) -> ControlPlane:
        """The control plane, started on first use."""
        if self._control is None:
            brokers = BrokersFile.load(self.brokers_file("control"))
            line = StompTransport(brokers.control_broker(), name="control")
            self._control = ControlPlane([self.organisation, *self.others], line)
        return self._control

    def name(self, short: str) -> str:
        """The full name of an agent or handle."""
        return short + self.suffix

    def address(self, short: str) -> str:
        """The address of an agent (`alpha`) or client (`p-ua`)."""
        return audience("client" if short.startswith("p-") else "agent", self.name(short))

    def _write(self) -> None:
        anchors = self.folder / "anchors.json"
        anchors.write_text(json.dumps(self.organisation.authority.anchors().to_json()))
        for name, agent in self.organisation.agents.items():
            folder = self.folder / name
            (folder / "state").mkdir(parents=True)
            write_private(folder / "state" / "keys.json", keys_document(agent.keys))
            port = free_port()
            (folder / "agent.toml").write_text(
                f'name = "{name}"\noverlay = "{agent.overlay}"\nstate = "state"\n'
                f'brokers_file = "{self.brokers_file("agents")}"\n'
                f'anchors_file = "{anchors}"\nhttp_port = {port}\nlease_interval = 0.5\n'
            )
            self.agents[name.removesuffix(self.suffix)] = AgentProcess(name, folder, port)
        for handle, client in self.organisation.clients.items():
            folder = self.folder / handle
            folder.mkdir()
            write_private(folder / "keys.json", keys_document(client.keys))
            create_profile(
                folder,
                handle=handle,
                domain=self.organisation.domain,
                brokers_file=self.brokers_file("clients"),
                anchors_file=anchors,
            )

    def start(self, seconds: float = PATIENCE) -> None:
        """Start everything; returns when every agent serves its first revision.

        Args:
            seconds: to wait for each agent's policy, and again until it serves.
        """
        for agent in self.agents.values():
            agent.start()
        self.control.push_all(self.organisation)
        for short in self.agents:
            self.control.wait_applied(self.address(short), 1, seconds)
            self.wait_standing(short, "serving", seconds)

    def wait_standing(self, short: str, standing: str, seconds: float = PATIENCE) -> None:
        """Wait until an agent says this of the domain."""
        agent = self.agents[short]
        wait_until(
            lambda: agent.domain(self.organisation.domain).get("standing") == standing,
            f"{short} to be {standing}: {agent.status()} {agent.log()[-2000:]}",
            seconds,
        )

    def profile(self, short: str) -> Path:
        """The profile folder of a client."""
        return self.folder / self.name(short)

    def publisher(self, short: str, **options: Any) -> Publisher:
        """A publisher; closed with the world."""
        client = Publisher(self.profile(short), **options)
        self._clients.append(client)
        return client

    def subscriber(self, short: str, **options: Any) -> Subscriber:
        """A subscriber; closed with the world."""
        client = Subscriber(self.profile(short), **options)
        self._clients.append(client)
        return client

    def broker(self, overlay: str, account: str = "control") -> BrokerConfig:
        """The broker of an overlay."""
        return BrokersFile.load(self.brokers_file(account)).overlay(overlay)

    def close(self) -> None:
        """Stop everything, clients first, whatever one of them says to it."""
        with ExitStack() as left:
            if self._control is not None:
                left.callback(self._control.stop)
            for end in (*(agent.end for agent in self.agents.values()),
                        *(client.close for client in self._clients)):  # fmt: skip
                left.callback(end)


def received(subscriber: Subscriber, count: int) -> list[Event]:
    """The events that come until there are so many, and for a moment more."""
    found: list[Event] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < end:
        found += subscriber.events(timeout=0.2)
    return [*found, *subscriber.events(timeout=QUIET_SECONDS)]


def kept_by(agents: Iterable[AgentProcess]) -> bytes:
    """Everything in the folders of agents that are at work: state, bundles, logs."""
    found = [path for agent in agents for path in sorted(agent.folder.rglob("*"))]
    assert found
    return b"\n".join(_read(path) for path in found)


def _read(path: Path) -> bytes:
    """A file; nothing of a folder, and of a file that took another's place meanwhile."""
    try:
        return path.read_bytes()
    except (IsADirectoryError, FileNotFoundError):
        return b""


def write_private(path: Path, document: dict[str, Any]) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(document))
