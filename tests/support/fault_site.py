"""One site of real processes for fault tests: every part can be killed and started again.

PostgreSQL, Redis, ActiveMQ, the authority, relay, beat, worker, two processes that answer agents,
agents and clients. Whoever wants something between two parts gives `through`:

    def through(who: str, part: str, address: Address) -> Address: ...

It is asked once for every way from one to another before anything starts, and says where `who`
(`control`, `clients`, or the name of an agent) finds `part` (`postgresql`, `redis`, `activemq`, or
`activemq-b` where agents stand on an overlay `b` too; control queues are at the first one).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.distribution_site import Site
from tests.support.fault_domain import AGENTS
from tests.support.migrated_postgresql import migrated_postgresql
from tests.support.processes import Running, children_of
from tests.support.services import PostgresServer, RedisServer

Address = tuple[str, int]
Through = Callable[[str, str, Address], Address]

ANSWERING = ("serve-1", "serve-2")
_CONTROL = "a"
_LOOPBACK = "127.0.0.1"
_PATIENCE = 300.0


def directly(_who: str, _part: str, address: Address) -> Address:
    """Nothing in between."""
    return address


class FaultSite(Site):
    """The whole of it; `kill` and `again` take the name of any part.

    Args:
        folder: for all state but PostgreSQL's.
        through: what stands between the parts.
        environment: further settings.
        agents: overlay of each agent.
    """

    commands = "tests.support.fault_commands"

    def __init__(
        self,
        folder: Path,
        *,
        through: Through = directly,
        environment: dict[str, str] | None = None,
        agents: Mapping[str, str] = AGENTS,
    ) -> None:
        # Not in the folder: PostgreSQL's own user must be able to enter it.
        self._database_folder = Path(tempfile.mkdtemp(prefix="portcullis-postgres-"))
        for name in ("redis", "var"):
            (folder / name).mkdir(parents=True)
        self.postgresql = PostgresServer(self._database_folder)
        self.redis = RedisServer(folder / "redis")
        self._brokers_of = {
            overlay: ActiveMQ(folder / _part(overlay), name=overlay)
            for overlay in sorted({_CONTROL, *agents.values()})
        }
        self.servers: dict[str, PostgresServer | RedisServer | ActiveMQ] = {
            "postgresql": self.postgresql,
            "redis": self.redis,
            **{_part(overlay): broker for overlay, broker in self._brokers_of.items()},
        }
        # The broker dies with the thread that started it: this one lives as long as the site.
        self._starter = ThreadPoolExecutor(1)
        self._through = through
        database = self.postgresql.server
        redis = self.redis.server
        port = through("control", "postgresql", (_LOOPBACK, database.port))[1]
        queue = through("control", "redis", (_LOOPBACK, redis.port))[1]
        super().__init__(
            folder,
            lambda account: self._brokers(account, account),
            {
                "PORTCULLIS_DATABASE_URL": replace(database, port=port).url("site"),
                "PORTCULLIS_CELERY_BROKER_URL": replace(redis, port=queue).url(1),
                "PORTCULLIS_CACHE_URL": replace(redis, port=queue).url(2),
                "PORTCULLIS_SPARK_MASTER": "local[2]",
                **(environment or {}),
            },
            agents=agents,
            agent_brokers=lambda name: self._brokers(name, "agents"),
        )

    def _brokers(self, who: str, account: str) -> Path:
        """The brokers file of one party."""
        path = self.folder / f"brokers-{who}.json"
        if not path.exists():
            entries = {}
            for overlay, broker in self._brokers_of.items():
                host, port = self._through(who, _part(overlay), (broker.host, broker.port))
                entries[overlay] = broker.entry(account, host=host, port=port)
            write_brokers_file(path, entries, control=_CONTROL)
        return path

    # starting and stopping

    def start(self, *samples: str) -> None:
        """Start everything with these files loaded; `profiles` are people's folders."""
        with ThreadPoolExecutor() as pool:
            for begun in [
                pool.submit(self._begin_database),
                pool.submit(self.redis.start),
                *(
                    self._starter.submit(broker.start, timeout=_PATIENCE)
                    for broker in self._brokers_of.values()
                ),
            ]:
                begun.result()
        super().start(*samples)

    def _begin_database(self) -> None:
        self.postgresql.make()
        self.postgresql.start()
        migrated_postgresql(self.postgresql.server, "site")

    def prepare_database(self) -> None:
        """Its tables were made while the other servers started."""

    def control(self) -> None:
        """The control plane's processes; two of them answer agents."""
        for name in ANSWERING:
            self.part(name, "manage.py", "serve_agents")
        self.part("relay", "manage.py", "relay_outbox")
        self.worker()
        self.celery("beat", "beat", "--schedule", str(self.folder / "beat"), "--pidfile=")

    def stop(self) -> None:
        """Stop everything; whoever is told to end has it told at the same time."""
        try:
            for part in self.parts.values():
                if part.process.poll() is None:
                    part.process.terminate()
            super().stop()
        finally:
            for server in self.servers.values():
                server.stop()
            self._starter.shutdown()
            with suppress(OSError):
                shutil.copy(self.postgresql.log, self.folder / "postgresql.log")
            shutil.rmtree(self._database_folder, ignore_errors=True)

    # faults

    def kill(self, name: str) -> None:
        """kill -9 of a part, of all of its processes."""
        server = self.servers.get(name)
        if server is not None:
            server.kill()
            return
        process = self.parts[name].process
        for pid in (process.pid, *children_of(process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(120)

    def again(self, name: str) -> None:
        """Start a part again; a server is waited for, whatever depends on it waits by itself."""
        server = self.servers.get(name)
        if isinstance(server, ActiveMQ):
            self._starter.submit(server.start, timeout=_PATIENCE).result()
        elif server is not None:
            server.start()
        else:
            before = self.parts[name]
            self.parts[name] = Running(before.command, log=before.log, environment=self.environment)

    def handles(self) -> dict[str, str]:
        """How brokers know each principal, by name."""
        return {
            name: json.loads((Path(folder) / "profile.json").read_text())["handle"]
            for name, folder in self.profiles.items()
        }

    def broker_of(self, agent: str) -> ActiveMQ:
        """The broker of an agent's overlay."""
        return self._brokers_of[self.agents[agent]]

    def drivers(self) -> list[int]:
        """Processes that drive Spark for the worker just now."""
        worker = self.parts["worker"].pid
        inner = [pid for child in children_of(worker) for pid in children_of(child)]
        return [pid for pid in inner if "spark.jobs.recompute" in _command(pid)]

    # what agents say

    def status(self, agent: str) -> dict[str, Any]:
        """An agent's status document; {} while it does not answer."""
        config = tomllib.loads((self.folder / agent / "agent.toml").read_text())
        url = f"http://{_LOOPBACK}:{config['http_port']}/status"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                found: dict[str, Any] = json.loads(answer.read())
        except (urllib.error.URLError, OSError, ValueError):
            return {}
        return found


def _part(overlay: str) -> str:
    """The name of an overlay's broker."""
    return "activemq" if overlay == _CONTROL else f"activemq-{overlay}"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
