"""The whole product from one state folder: what `run` and `demo` both start, in the same order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tasks.local import parts
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tasks.local.errors import LocalError
from tasks.local.layout import AGENTS, OVERLAYS, ROOT, Layout
from tasks.local.processes import tail
from tasks.local.supervisor import Supervisor

Addresses = Mapping[str, tuple[str, int]]


class Stack:
    """Brokers, authority, control plane and agents of one Layout under one supervisor.

    `through` maps an overlay's name to the address under which agents, clients and control plane
    reach its broker, for one that listens in between; left out, they reach it directly.
    """

    def __init__(
        self,
        layout: Layout,
        say: Callable[[str], None],
        *,
        through: Callable[[Mapping[str, ActiveMQ]], Addresses] | None = None,
    ) -> None:
        self.layout = layout
        self.supervisor = Supervisor(say)
        self.brokers: dict[str, ActiveMQ] = {}
        self._say = say
        self._through = through

    def start_brokers(self) -> None:
        """Both ActiveMQ brokers and the brokers files that lead to them."""
        layout = self.layout
        layout.make()
        self.brokers = {name: ActiveMQ(layout.broker_folder(name), name=name) for name in OVERLAYS}
        self.supervisor.start(*(parts.activemq(broker) for broker in self.brokers.values()))
        addresses = self._through(self.brokers) if self._through else {}
        for account in ("control", "agents", "clients"):
            entries = {
                name: _entry(broker, account, addresses) for name, broker in self.brokers.items()
            }
            write_brokers_file(layout.brokers_file(account), entries)

    def start_authority(self) -> None:
        """The trusted authority, with keys of its own made the first time."""
        layout = self.layout
        if not layout.anchors.is_file():
            self.command(
                "authority-init",
                *("-m", "tasks.authority", "init"),
                *("--state", str(layout.authority_state), "--anchors", str(layout.anchors)),
            )
        self.supervisor.start(parts.authority(layout))

    def prepare(self) -> dict[str, Any]:
        """Migrations, operator account, agents, sample organisations, clients; what was made."""
        report = self.layout.run / "prepared.json"
        report.unlink(missing_ok=True)
        self.command(
            "prepare",
            "-m",
            "tasks.local",
            "prepare",
            "--var",
            str(self.layout.var),
            "--report",
            str(report),
        )
        made: dict[str, Any] = json.loads(report.read_text())
        # It may hold a new password, which is shown once and kept nowhere.
        report.unlink()
        return made

    def start_control_plane(self) -> None:
        """Console and API, worker, beat, relay, and the process that answers agents."""
        layout = self.layout
        self.supervisor.start(
            parts.web(layout),
            parts.answers(layout),
            parts.worker(layout),
            parts.relay(layout),
            parts.beat(layout),
        )

    def start_agents(self) -> None:
        """All broker agents."""
        self.supervisor.start(*(parts.agent(self.layout, name) for name in AGENTS))

    def command(self, name: str, *arguments: str) -> None:
        """Run a Python command of this copy to its end; LocalError with its output if it fails."""
        log = self.layout.logs / f"{name}.log"
        with log.open("wb") as output:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self.layout.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise LocalError(f"`{name}` failed. Its output ends ({log}):\n{tail(log)}")

    def stop(self) -> None:
        """Stop everything, the last started first."""
        self.supervisor.stop()


def _entry(broker: ActiveMQ, account: str, addresses: Addresses) -> dict[str, object]:
    host, port = addresses.get(broker.name, (broker.host, broker.port))
    return broker.entry(account, host=host, port=port)
