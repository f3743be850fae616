"""Database, operator account, agents, sample organisations and clients of one local copy.

Runs as a process of its own (`python -m tasks.local prepare`), so that the supervisor itself
stays small. Everything goes through the control plane's services and is done once: what is there
already stays as it is.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from tasks.local.errors import LocalError
from tasks.local.layout import AGENTS, ROOT, Layout, write_private

OPERATOR = "operator"
SAMPLES = ("heating", "flights")
_OVERLAYS = {"a": ("Overlay A", "Operator A"), "b": ("Overlay B", "Operator B")}


def prepare(var: Path, report: Path) -> int:
    """Bring everything into being that is missing, and write what was made to `report` (JSON)."""
    _django(var)
    from django.core.management import call_command

    layout = Layout(var.resolve(), 0)
    call_command("migrate", verbosity=0, interactive=False)
    made: dict[str, Any] = _operator()
    _agents(layout)
    _organisations()
    _clients(layout)
    write_private(report, json.dumps(made))
    return 0


def new_password(var: Path) -> int:
    """Give the operator account a new random password and show it."""
    layout = Layout(var.resolve(), 0)
    if (
        not (layout.var / "portcullis.sqlite3").is_file()
        and "PORTCULLIS_DATABASE_URL" not in os.environ
    ):
        raise LocalError("there is no account yet: `make run` makes one and shows its password.")
    _django(var)
    from adminapp.identity import services
    from adminapp.identity.models import User

    user = User.objects.filter(username=OPERATOR).first()
    if user is None:
        raise LocalError("there is no account yet: `make run` makes one and shows its password.")
    password = _random_password()
    services.set_password(actor=None, user=user, password=password)
    print(f"{OPERATOR}   {password}")
    return 0


def _django(var: Path) -> None:
    for name, value in Layout(var.resolve(), 0).environment().items():
        if name.startswith(("PORTCULLIS_", "DJANGO_")):
            os.environ[name] = value
    import django

    django.setup()


def _random_password() -> str:
    return secrets.token_urlsafe(15)


def _operator() -> dict[str, Any]:
    from adminapp.identity import services
    from adminapp.identity.models import User

    if User.objects.filter(username=OPERATOR).exists():
        return {"username": OPERATOR}
    password = _random_password()
    services.create_user(actor=None, username=OPERATOR, password=password, operator=True)
    return {"username": OPERATOR, "password": password}


def _agents(layout: Layout) -> None:
    from adminapp.identity import services
    from adminapp.identity.models import Agent, Overlay

    for name, (title, operator) in _OVERLAYS.items():
        if not Overlay.objects.filter(name=name).exists():
            services.create_overlay(actor=None, name=name, title=title, operator=operator)
    for name, overlay in AGENTS.items():
        if not Agent.objects.filter(name=name).exists():
            keys = _agent_keys(layout, name, overlay)
            services.register_agent(
                actor=None,
                name=name,
                overlay=Overlay.objects.get(name=overlay),
                sealing_key=keys["sealing_key"],
                verify_key=keys["verify_key"],
            )


def _agent_keys(layout: Layout, name: str, overlay: str) -> dict[str, str]:
    """The agent makes its own keys; only the public ones leave its folder."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "brokers.agent", "init"),
            *("--name", name, "--overlay", overlay, "--state", str(layout.agent(name))),
        ],
        cwd=ROOT,
        env=layout.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"agent `{name}` could not make its keys:\n{done.stderr}")
    keys: dict[str, str] = json.loads(done.stdout)
    return keys


def _organisations() -> None:
    from django.core.management import call_command

    files = [str(ROOT / "adminapp" / "samples" / f"{name}.yaml") for name in SAMPLES]
    call_command("load_organisation", *files)


def _clients(layout: Layout) -> None:
    """Keys for every sample principal, made where the client runs."""
    from adminapp.identity import services
    from adminapp.identity.models import Principal
    from brokers.client import create_profile

    active = Principal.objects.filter(domain__name__in=SAMPLES, state=Principal.State.ACTIVE)
    for principal in active.select_related("domain"):
        if principal.sealing_key:
            continue
        keys = create_profile(
            layout.client(principal.domain.name, principal.name),
            handle=principal.handle,
            domain=principal.domain.name,
            brokers_file=layout.brokers_file("clients"),
            anchors_file=layout.anchors,
        )
        services.register_credentials(
            actor=None,
            principal=principal,
            sealing_key=keys["sealing_key"],
            verify_key=keys["verify_key"],
        )
