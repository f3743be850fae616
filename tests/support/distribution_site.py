"""A whole site in processes of its own: authority, control plane, worker, agents; real brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from brokers.adapters.files import Keys, private_folder
from tests.support.commands import Commands
from tests.support.migrated import migrated
from tests.support.ports import free_port, wait_until
from tests.support.processes import REPOSITORY, Running

AGENTS = {"alpha": "a", "beta": "a", "gamma": "b"}


class Site:
    """Starts and stops the parts; each is a `Running` under its name.

    Args:
        folder: for all state.
        brokers_file: function: account -> brokers file.
        environment: further settings.
        agents: overlay of each agent.
        agent_brokers: function: agent -> its own brokers file; without it all share one.
        lease_interval: seconds between two leases of an agent.
    """

    commands = "tests.support.distribution_commands"

    def __init__(
        self,
        folder: Path,
        brokers_file: Callable[[str], Path],
        environment: dict[str, str] | None = None,
        *,
        agents: Mapping[str, str] = AGENTS,
        agent_brokers: Callable[[str], Path] | None = None,
        lease_interval: float = 1.0,
    ) -> None:
        self.folder = folder
        self.lease_interval = lease_interval
        self.agents = dict(agents)
        self._agent_brokers = agent_brokers or (lambda _: brokers_file("agents"))
        self.anchors = folder / "anchors.json"
        self._brokers_file = brokers_file
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PORTCULLIS_ENV": "test",
            "PORTCULLIS_VAR": str(folder / "var"),
            "PORTCULLIS_AUTHORITY_SOCKET": str(folder / "authority.sock"),
            "PORTCULLIS_BROKERS_FILE": str(brokers_file("control")),
            "PORTCULLIS_DRAIN_SECONDS": "3",
            "PORTCULLIS_DRAIN_LIMIT_SECONDS": "20",
            **(environment or {}),
        }
        self.parts: dict[str, Running] = {}
        self.profiles: dict[str, str] = {}
        self._commands = Commands(self.commands, self.environment)

    def start(self, *samples: str) -> None:
        """Start everything with samples (or files) loaded; `profiles` are people's folders."""
        self.run(
            "-m", "tasks.authority", "init", *self._authority(), "--anchors", str(self.anchors)
        )
        self.part("authority", "-m", "tasks.authority", "run", *self._authority(), "--socket",
                  self.environment["PORTCULLIS_AUTHORITY_SOCKET"])  # fmt: skip
        self.parts["authority"].wait_for_text("answering", seconds=120)
        self.prepare_database()
        keys = {name: self._agent_keys(name, overlay) for name, overlay in self.agents.items()}
        self.call("register", json.dumps(keys))
        clients, brokers = str(self.folder / "clients"), str(self._brokers_file("clients"))
        self.profiles = self.call("load", ",".join(samples), clients, brokers, str(self.anchors))
        self.control()
        for name in self.agents:
            self.agent(name)

    def prepare_database(self) -> None:
        """Have the tables made, in the embedded database by way of a copy."""
        migrated(self.folder / "var" / "portcullis.sqlite3")

    def control(self) -> None:
        """The control plane's processes."""
        self.part("serve", "manage.py", "serve_agents")
        self.part("relay", "manage.py", "relay_outbox")
        self.worker()
        schedule = str(self.folder / "beat")
        self.celery("beat", "beat", "--schedule", schedule, "--pidfile=")

    def worker(self) -> None:
        """A Celery worker for all queues."""
        self.celery("worker", "worker", "--concurrency", "2", "--without-gossip",
                    "--without-mingle", "--hostname", "worker@test")  # fmt: skip

    def celery(self, name: str, *arguments: str) -> None:
        self.part(name, "-m", "celery", "-A", "tasks.celery", *arguments, "--loglevel", "INFO")

    def agent(self, name: str) -> None:
        """One agent, with the state that it has on disk."""
        folder = self.folder / name
        config = folder / "agent.toml"
        if not config.exists():
            config.write_text(
                f'name = "{name}"\noverlay = "{self.agents[name]}"\nstate = "state"\n'
                f'brokers_file = "{self._agent_brokers(name)}"\n'
                f'anchors_file = "{self.anchors}"\nhttp_port = {free_port()}\n'
                f"lease_interval = {self.lease_interval}\n"
            )
        self.part(name, "-m", "brokers.agent", "run", "--config", str(config))

    def part(self, name: str, *arguments: str) -> Running:
        """Start a part."""
        self.parts[name] = Running(
            [sys.executable, *arguments],
            log=self.folder / f"{name}.log",
            environment=self.environment,
        )
        return self.parts[name]

    def stop(self) -> None:
        """Stop everything, the last one first."""
        self._commands.close()
        for process in reversed(self.parts.values()):
            process.stop()

    def run(self, *arguments: str) -> str:
        """Run a command that ends by itself; give what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=REPOSITORY, env=self.environment,
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}: {done.stderr}\n{done.stdout}"
        return done.stdout

    def call(self, command: str, *arguments: str) -> Any:
        """Have one of `distribution_commands` done; one process does them all."""
        return self._commands.call(command, *arguments)

    def wait_current(self, domain: str, seconds: float = 90.0) -> None:
        """Wait until every agent acknowledged the domain's newest revision."""

        def current() -> bool:
            found = self.call("progress", domain)
            return bool(found["applied"] == found["agents"] > 0)

        wait_until(current, seconds=seconds, what=f"agents to hold {domain}")

    def _authority(self) -> tuple[str, str]:
        return "--state", str(self.folder / "authority")

    def _agent_keys(self, name: str, overlay: str) -> dict[str, str]:
        # As `python -m brokers.agent init` does it, without a process for each.
        keys = Keys.create(private_folder(self.folder / name / "state") / "keys.json").public()
        return {
            "overlay": overlay,
            "sealing_key": keys["sealing_key"],
            "verify_key": keys["verify_key"],
        }
