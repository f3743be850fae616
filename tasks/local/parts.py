"""The processes of the product: how each is called and how it shows that it serves."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

from adminapp.core.authority import AuthorityClient, AuthorityError
from tasks.local import http
from tasks.local.activemq import ActiveMQ
from tasks.local.layout import AGENTS, ROOT, Layout, write_private
from tasks.local.ports import LOOPBACK, free_port
from tasks.local.processes import Child
from tasks.local.supervisor import Part

CELERY = ("-m", "celery", "-A", "tasks.celery")


def python(layout: Layout, name: str, *arguments: str) -> Child:
    """A Python process of this copy, logging to a file of its own."""
    return Child(
        name,
        [sys.executable, *arguments],
        log=layout.logs / f"{name}.log",
        env=layout.environment(),
        cwd=ROOT,
    )


def activemq(broker: ActiveMQ) -> Part:
    """The ActiveMQ of one overlay."""
    return Part(
        name=f"activemq-{broker.name}",
        child=broker.child(),
        ready=broker.ready,
        detail=lambda: f"stomp://{broker.host}:{broker.port}",
    )


def authority(layout: Layout) -> Part:
    """The trusted authority behind its Unix socket."""
    path = layout.authority_socket
    path.unlink(missing_ok=True)
    child = python(
        layout,
        "authority",
        *("-m", "tasks.authority", "run"),
        *("--socket", str(path), "--state", str(layout.authority_state)),
    )
    return Part(
        "authority", child, ready=lambda: _listens(path), detail=lambda: authority_detail(path)
    )


def authority_detail(path: Path) -> str:
    """What the authority does, and whether its root of trust is one for development."""
    does = "signs, keeps keys"
    return f"{does}; SELF-MADE ROOT, for development only" if root_is_self_made(path) else does


def root_is_self_made(path: Path) -> bool:
    """Whether the authority behind a socket answers that no root ceremony was held."""
    client = AuthorityClient(path, timeout=1.0)
    try:
        return client.root().self_made
    except (AuthorityError, OSError):
        return False
    finally:
        client.close()


def agent(layout: Layout, name: str) -> Part:
    """A broker agent; writes its configuration with a free port for its status."""
    port = free_port()
    write_private(layout.agent_config(name), _agent_toml(layout, name, port))
    child = python(
        layout,
        name,
        *("-m", "brokers.agent", "run", "--config", str(layout.agent_config(name))),
    )
    base = f"http://{LOOPBACK}:{port}"
    return Part(
        name,
        child,
        ready=lambda: http.get_json(f"{base}/health") is not None or http.answers(f"{base}/health"),
        detail=lambda: agent_line(http.get_json(f"{base}/status"), base),
    )


def agent_line(status: dict[str, object] | None, base: str) -> str:
    """What an agent's status line shows: its revisions by domain and where its status is."""
    if status is None:
        return "no status"
    domains = status.get("domains")
    held = []
    if isinstance(domains, dict):
        held = [f"{name} r{entry.get('revision')}" for name, entry in sorted(domains.items())]
    return f"{', '.join(held) or 'no bundle yet'}  {base}/status"


def web(layout: Layout) -> Part:
    """Console and API."""
    child = python(
        layout,
        "console",
        *("-m", "uvicorn", "adminapp.config.asgi:application"),
        *("--host", LOOPBACK, "--port", str(layout.port)),
        # Pages with live parts hold a stream open; they reconnect by themselves.
        *("--no-access-log", "--timeout-graceful-shutdown", "2"),
    )
    return Part(
        "console",
        child,
        ready=lambda: http.answers(layout.address),
        detail=lambda: layout.address,
    )


def worker(layout: Layout) -> Part:
    """The Celery worker."""
    child = python(
        layout,
        "worker",
        *CELERY,
        *("worker", "--loglevel", "WARNING", "--concurrency", "2", "--without-gossip"),
        *("--without-mingle", "--hostname", "worker@localhost"),
    )
    return Part("worker", child, detail=lambda: "Celery, two processes", stop_seconds=20)


def beat(layout: Layout) -> Part:
    """Celery's clock."""
    schedule = layout.var / "celery" / "beat-schedule"
    schedule.parent.mkdir(parents=True, exist_ok=True)
    child = python(
        layout,
        "beat",
        *CELERY,
        *("beat", "--loglevel", "WARNING", "--schedule", str(schedule), "--pidfile="),
    )
    return Part("beat", child, detail=lambda: "sweeps and schedules")


def relay(layout: Layout) -> Part:
    """Hands outbox rows to Celery."""
    return Part(
        "outbox relay",
        python(layout, "relay", "manage.py", "relay_outbox"),
        detail=lambda: "relays",
    )


def answers(layout: Layout) -> Part:
    """Leases, notices and acknowledgements: the process that answers agents and clients."""
    return Part(
        "serve agents",
        python(layout, "serve-agents", "manage.py", "serve_agents"),
        detail=lambda: "leases, acknowledgements",
    )


def traffic(layout: Layout) -> Part:
    """Sample publishers and subscribers."""
    status = layout.run / "traffic.json"
    status.unlink(missing_ok=True)
    child = python(layout, "traffic", "-m", "tasks.local", "traffic", "--var", str(layout.var))
    return Part("sample traffic", child, detail=lambda: _traffic_line(status))


def agents(layout: Layout) -> list[Part]:
    """All three broker agents."""
    return [agent(layout, name) for name in AGENTS]


def _traffic_line(path: Path) -> str:
    try:
        counts = json.loads(path.read_text())
    except (OSError, ValueError):
        return "waiting for the first bundles"
    return f"{counts['published']} published, {counts['received']} received"


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _agent_toml(layout: Layout, name: str, port: int) -> str:
    values = {
        "name": name,
        "overlay": AGENTS[name],
        "state": str(layout.agent(name)),
        "brokers_file": str(layout.brokers_file("agents")),
        "anchors_file": str(layout.anchors),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join([*lines, f"http_port = {port}", ""])
