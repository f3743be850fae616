"""Where one running copy keeps its files, and the environment its processes get."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AGENTS = {"alpha": "a", "beta": "a", "gamma": "b"}
"""The broker agents of the sample set-up and the overlay each one is on."""
OVERLAYS = ("a", "b")


@dataclass(frozen=True)
class Layout:
    """The state folder `var` of one running copy whose console listens on `port`."""

    var: Path
    port: int

    @property
    def run(self) -> Path:
        """Sockets, locks and passing state."""
        return self.var / "run"

    @property
    def logs(self) -> Path:
        """One log file a process."""
        return self.var / "log"

    @property
    def anchors(self) -> Path:
        """The authority's public keys, which agents and clients trust."""
        return self.var / "anchors.json"

    @property
    def authority_state(self) -> Path:
        """What only the authority reads."""
        return self.var / "authority"

    @property
    def authority_socket(self) -> Path:
        """The Unix socket on which the authority answers the control plane."""
        return self.run / "authority.sock"

    @property
    def secret_key_file(self) -> Path:
        """Django's secret key."""
        return self.var / "secret-key"

    @property
    def address(self) -> str:
        """Where a browser finds the console."""
        return f"http://127.0.0.1:{self.port}/"

    def broker_folder(self, overlay: str) -> Path:
        """The private ActiveMQ of one overlay."""
        return self.var / "activemq" / overlay

    def brokers_file(self, account: str) -> Path:
        """The brokers file of the STOMP account `control`, `agents` or `clients`."""
        return self.var / "brokers" / f"{account}.json"

    def agent(self, name: str) -> Path:
        """An agent's state folder."""
        return self.var / "agents" / name

    def agent_config(self, name: str) -> Path:
        """An agent's configuration file."""
        return self.var / "agents" / f"{name}.toml"

    def client(self, domain: str, principal: str) -> Path:
        """The profile folder of a publisher or subscriber."""
        return self.var / "clients" / domain / principal

    def make(self) -> None:
        """Make the folders (mode 0700) and the secret key, where they are missing."""
        for folder in (self.var, self.run, self.logs, self.var / "brokers", self.var / "agents"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.secret_key_file.is_file():
            write_private(self.secret_key_file, secrets.token_urlsafe(48))

    def environment(self) -> dict[str, str]:
        """The environment of every process of the control plane: all settings by name."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "adminapp.config.settings",
            "PORTCULLIS_ENV": os.environ.get("PORTCULLIS_ENV", "development"),
            "PORTCULLIS_VAR": str(self.var),
            "PORTCULLIS_SECRET_KEY_FILE": str(self.secret_key_file),
            "PORTCULLIS_BROKERS_FILE": str(self.brokers_file("control")),
            "PORTCULLIS_AUTHORITY_SOCKET": str(self.authority_socket),
            "PORTCULLIS_ALLOWED_HOSTS": "127.0.0.1,localhost",
        }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
