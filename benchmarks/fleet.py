"""A control plane in processes of its own beside many real agents, for measurements.

The calling process is a part of the control plane too (it revokes, as the console would), so a
`Fleet` is made once a process: Django reads its settings from the environment then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from benchmarks.members import OVERLAY
from benchmarks.memory import memory_of, proportional
from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.files import Keys, private_folder
from brokers.adapters.stomp import StompTransport
from brokers.ports import Outgoing
from policyengine.bundles.addresses import REQUESTS_QUEUE, control_queue
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.processes import REPOSITORY, Running

PER_HOST = 20
PATIENCE = 300.0
"""Seconds for something to start: others may be at work on this machine."""
HEAP_MB = 1024
"""Of the broker, whose every connection takes some: too little, and it only collects garbage."""
_ACCOUNTS = ("control", "agents", "clients")
_CELERY = ("-m", "celery", "-A", "tasks.celery")


class Fleet:
    """Starts and stops everything.

    Args:
        folder: for all state.
        agents: how many.
        embedded: SQLite and folders for messages, in the place of PostgreSQL and Redis.
        connected: with a broker; without one nothing can be sent.
    """

    def __init__(
        self, folder: Path, agents: int, *, embedded: bool, connected: bool = True
    ) -> None:
        self.folder = folder
        self.brokers_files: dict[str, Path] = {}
        self._connected = connected
        self.names = [f"agent-{number:04d}" for number in range(agents)]
        self.anchors = folder / "anchors.json"
        self.parts: dict[str, Running] = {}
        self.hosts: list[Host] = []
        self.observed = Observed()
        self._stack = ExitStack()
        self._embedded = embedded

    def __enter__(self) -> Fleet:
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        if self._connected:
            self._start_broker()
        os.environ.update(self._settings())
        state = ("--state", str(self.folder / "authority"))
        self._run("-m", "tasks.authority", "init", *state, "--anchors", str(self.anchors))
        self.part("authority", "-m", "tasks.authority", "run", *state, "--socket",
                  os.environ["PORTCULLIS_AUTHORITY_SOCKET"])  # fmt: skip
        self.parts["authority"].wait_for_text("answering", seconds=PATIENCE)
        if self._embedded:
            from tests.support.migrated import migrated

            migrated(self.folder / "var" / "portcullis.sqlite3")
        else:
            self._run("manage.py", "migrate", "--no-input", "-v0")
        import django

        django.setup()

    def _start_broker(self) -> None:
        self.broker = ActiveMQ(self.folder / "activemq", name=OVERLAY, heap_mb=HEAP_MB)
        self.broker.start(timeout=PATIENCE)
        self._stack.callback(self.broker.stop)
        for account in _ACCOUNTS:
            self.brokers_files[account] = write_brokers_file(
                self.folder / f"brokers-{account}.json", {OVERLAY: self.broker.entry(account)}
            )

    def _settings(self) -> dict[str, str]:
        found = {
            "DJANGO_SETTINGS_MODULE": "adminapp.config.settings",
            "PYTHONPATH": str(REPOSITORY),
            "PORTCULLIS_ENV": "test",
            "PORTCULLIS_VAR": str(self.folder / "var"),
            "PORTCULLIS_AUTHORITY_SOCKET": str(self.folder / "authority.sock"),
            "PORTCULLIS_BROKERS_FILE": str(self.brokers_files.get("control", "")),
            "PORTCULLIS_DRAIN_SECONDS": "3" if self._connected else "0",
            "PORTCULLIS_DRAIN_LIMIT_SECONDS": "20",
        }
        if not self._embedded:
            from tests.support.services import running_postgresql, running_redis

            place = self.folder / "redis"
            place.mkdir()
            database = self._stack.enter_context(running_postgresql(durable=True))
            redis = self._stack.enter_context(running_redis(place))
            found["PORTCULLIS_DATABASE_URL"] = database.create("fleet")
            found["PORTCULLIS_CELERY_BROKER_URL"] = redis.url(1)
            found["PORTCULLIS_CACHE_URL"] = redis.url(2)
        return found

    # -- processes ---------------------------------------------------------------------------

    def control(self) -> None:
        """Start the control plane's processes."""
        self.part("serve-agents", "manage.py", "serve_agents")
        self.part("relay", "manage.py", "relay_outbox")
        common = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING")
        self.part("urgent", *_CELERY, "worker", "-Q", "urgent", "--concurrency", "1",
                  "--hostname", "urgent@fleet", *common)  # fmt: skip
        self.part("worker", *_CELERY, "worker", "--concurrency", "2",
                  "--hostname", "worker@fleet", *common)  # fmt: skip
        schedule = str(self.folder / "beat")
        self.part("beat", *_CELERY, "beat", "--schedule", schedule, "--pidfile=")

    def part(self, name: str, *arguments: str) -> Running:
        """Start one process of the control plane."""
        started = Running([sys.executable, *arguments], log=self.folder / f"{name}.log")
        self.parts[name] = started
        self._stack.callback(started.stop)
        return started

    def agents(self, lease_interval: float) -> None:
        """Start the agents, many to a process."""
        for start in range(0, len(self.names), PER_HOST):
            host = Host(self, self.names[start : start + PER_HOST], lease_interval)
            self.hosts.append(host)
            self._stack.callback(host.close)
        for host in self.hosts:
            host.ask("agents")
        for host in self.hosts:
            host.wait("started")

    def keys(self) -> dict[str, dict[str, str]]:
        """Make every agent's keys in its folder; gives the public ones."""
        return {
            name: Keys.create(private_folder(self.folder / "agents" / name) / "keys.json").public()
            for name in self.names
        }

    def memory(self) -> dict[str, float]:
        """Bytes of the control plane's processes, of the broker and of one agent."""
        control = {name: memory_of(part.pid) for name, part in self.parts.items()}
        empty = sum(host.empty for host in self.hosts)
        full = sum(host.memory() for host in self.hosts)
        return {
            **{name: float(size) for name, size in control.items()},
            "control plane": float(sum(control.values())),
            "ActiveMQ": float(memory_of(self.broker.pid or 0)),
            "one agent": (full - empty) / len(self.names),
        }

    def memory_here(self) -> dict[str, float]:
        """Bytes of this process and of the authority."""
        parts = {name: float(memory_of(part.pid)) for name, part in self.parts.items()}
        return {**parts, "this process": float(proportional("self"))}

    def logs(self) -> Iterator[tuple[str, str]]:
        """What each process said."""
        for name, part in self.parts.items():
            yield name, part.text()

    def close(self) -> None:
        """Stop what was started, the last one first."""
        self._stack.close()

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, capture_output=True,
                              text=True, check=False)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stderr}")


class Host:
    """One process with some agents.

    Args:
        fleet: of the fleet.
        names: its agents.
        lease_interval: seconds between two leases of an agent.
    """

    def __init__(self, fleet: Fleet, names: list[str], lease_interval: float) -> None:
        self._observed = fleet.observed
        self._said: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.agent_host",
             "--folder", str(fleet.folder / "agents"), "--names", ",".join(names),
             "--brokers", str(fleet.brokers_files["agents"]),
             "--plain-brokers", str(fleet.brokers_files["control"]),
             "--anchors", str(fleet.anchors), "--overlay", OVERLAY,
             "--lease-interval", str(lease_interval)],
            cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(fleet.folder / f"host-{names[0]}.log").open("w"),
        )  # fmt: skip
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()
        self.empty = self.wait("memory")["bytes"]

    def ask(self, *command: object) -> None:
        """Have one of its commands carried out."""
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def wait(self, kind: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for an answer of this kind; it is given once."""
        with self._news:
            if not self._news.wait_for(lambda: bool(self._said[kind]), seconds):
                raise TimeoutError(f"no `{kind}` from the agents' process")
            return self._said[kind].pop(0)

    def memory(self) -> int:
        """What it takes now, in bytes."""
        self.ask("memory")
        return int(self.wait("memory")["bytes"])

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _read(self, told: IO[str]) -> None:
        for line in told:
            said = json.loads(line)
            if "agent" in said:
                self._observed.note(said)
                continue
            with self._news:
                self._said[said["kind"]].append(said)
                self._news.notify_all()


class Observed:
    """What agents' own records say: when each put what into force."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self.denied: dict[str, dict[str, float]] = defaultdict(dict)
        self.revisions: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self.echoes: dict[str, float] = {}

    def note(self, said: dict[str, Any]) -> None:
        """Take one record."""
        agent, at = said["agent"], said["at"]
        with self._news:
            if said["kind"] == "notice":
                for handle in said["denied"]:
                    self.denied[handle].setdefault(agent, at)
            elif said["kind"] == "bundle":
                self.revisions[agent].append((said["revision"], at))
            else:
                self.echoes.setdefault(agent, at)
            self._news.notify_all()

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        """Wait until something holds of these records; False when it did not come true."""
        with self._news:
            return self._news.wait_for(what, seconds)

    def count(self, handle: str, revision: int) -> int:
        """How many agents deny a handle, or hold a policy without it."""
        denying = self.denied.get(handle, {})
        return sum(
            agent in denying or held[-1][0] >= revision for agent, held in self.revisions.items()
        )

    def enforced(self, handle: str, revision: int) -> dict[str, float]:
        """When each agent began to deny a handle: by notice, or by a policy without it."""
        found = dict(self.denied.get(handle, {}))
        for agent, held in self.revisions.items():
            for number, at in held:
                if number >= revision:
                    found[agent] = min(at, found.get(agent, at))
        return found


class Clients(threading.Thread):
    """Publishers' and subscribers' ends: they take their bundles and acknowledge them.

    Args:
        fleet: with a running broker.
        audiences: of `tests.support.audiences`.
    """

    def __init__(self, fleet: Fleet, audiences: list[Any]) -> None:
        super().__init__(daemon=True)
        brokers = BrokersFile.load(fleet.brokers_files["clients"])
        self._transport = StompTransport(brokers.control_broker(), name="clients")
        self._by_queue = {control_queue(each.address): each for each in audiences}
        self._ending = threading.Event()
        for queue in self._by_queue:
            self._transport.subscribe(queue)
        self._transport.connect(60)

    def run(self) -> None:
        """Until the end."""
        while not self._ending.is_set():
            messages = self._transport.receive_many(50, 0.2)
            answers = [
                Outgoing(REQUESTS_QUEUE, answer)
                for message in messages
                for answer in self._by_queue[message.queue].take(message.body)
            ]
            self._transport.send_many(answers)
            self._transport.ack_many(messages)

    def close(self) -> None:
        """Disconnect."""
        self._ending.set()
        self.join(30)
        self._transport.close()


def now() -> float:
    """Unix time: all processes of the measurement read the same clock."""
    return time.time()
