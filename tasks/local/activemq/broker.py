"""Start, watch and stop one ActiveMQ broker in a JVM of its own."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from tasks.local.activemq import java, probe
from tasks.local.errors import LocalError
from tasks.local.ports import LOOPBACK, free_port
from tasks.local.processes import Child

ACCOUNTS = ("control", "agents", "clients", "comparators")
"""The STOMP accounts: the control plane, broker agents, publishers and subscribers, comparators."""

_TEMPLATES = Path(__file__).parent / "templates"
_MESSAGE_LIMIT = 16 * 2**20


@dataclass(frozen=True)
class TlsServer:
    """The broker's own certificate and the authorities whose client certificates it accepts.

    Both are PKCS#12 files opened by one password; a client without a certificate is refused.
    """

    keystore: Path
    truststore: Path
    password: str


@dataclass(frozen=True)
class TlsClient:
    """What a client of a TLS broker is configured with: three PEM files."""

    ca: str
    certificate: str
    key: str


class ActiveMQ:
    """One broker in `folder`: configuration, accounts, message store and log live there.

    `name` is the broker's name; `stomp_port` 0 takes a free port, which then stays the same for
    the object's life, so that a restart is found at the same address. `accounts` maps the names
    in ACCOUNTS to passwords; left out, random ones are made and kept in `folder` (mode 0600).
    With `tls` the connector is `stomp+ssl` and demands a client certificate beside the password;
    `probe_tls` is then what the start-up probe itself connects with.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        stomp_port: int = 0,
        accounts: Mapping[str, str] | None = None,
        tls: TlsServer | None = None,
        probe_tls: TlsClient | None = None,
        store_limit: str = "1 gb",
        heap_mb: int = java.HEAP_MB,
    ) -> None:
        self.folder = folder.resolve()
        self.name = name
        self.port = stomp_port or free_port()
        self.tls = tls
        self.client_tls = probe_tls
        self.store_limit = store_limit
        self.heap_mb = heap_mb
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.accounts = dict(accounts) if accounts is not None else self._kept_accounts()
        self._child: Child | None = None

    @property
    def host(self) -> str:
        """The address it listens on: always loopback."""
        return LOOPBACK

    @property
    def pid(self) -> int | None:
        """The JVM's process id, or None when it was never started."""
        return self._child.pid if self._child else None

    @property
    def running(self) -> bool:
        """Whether the JVM runs."""
        return self._child is not None and self._child.running

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self.folder / "activemq.log"

    def entry(
        self, account: str, *, host: str | None = None, port: int | None = None
    ) -> dict[str, object]:
        """This broker as an entry of a brokers file, for one of ACCOUNTS.

        `host` and `port` replace its own address, for one who goes through a proxy.
        """
        return {
            "host": host or self.host,
            "port": port or self.port,
            "login": account,
            "passcode": self.accounts[account],
            "tls": asdict(self.client_tls) if self.client_tls else None,
        }

    def child(self) -> Child:
        """Render the configuration and return the process, not yet started (for a supervisor)."""
        self._render()
        self._child = Child(
            f"activemq {self.name}",
            java.command(self.folder, heap_mb=self.heap_mb),
            log=self.log,
            env=java.environment(),
            cwd=self.folder,
        )
        return self._child

    def start(self, *, timeout: float = 60.0) -> None:
        """Start the JVM and wait until it answers CONNECT with CONNECTED.

        Raises LocalError with the end of its log when it does not within `timeout` seconds.
        """
        if self.running:
            return
        self.child().start()
        self.wait_ready(timeout=timeout)

    def wait_ready(self, *, timeout: float = 60.0) -> None:
        """Wait until STOMP answers CONNECTED; LocalError when the JVM ends or time is up."""
        end = time.monotonic() + timeout
        while not self.ready():
            if not self.running or time.monotonic() > end:
                last = self._child.tail() if self._child else ""
                self.stop()
                raise LocalError(f"ActiveMQ `{self.name}` did not start. Its log ends:\n{last}")
            time.sleep(0.1)

    def ready(self) -> bool:
        """Whether a client with the control account is let in now."""
        return probe.connected(
            self.host,
            self.port,
            login="control",
            passcode=self.accounts["control"],
            tls=self.client_tls if self.tls else None,
        )

    def stop(self) -> None:
        """SIGTERM by process id, which flushes the store; SIGKILL after ten seconds."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """`kill -9`, as a crash would; start() then finds the messages in the store."""
        if self._child is not None:
            self._child.kill()

    def _kept_accounts(self) -> dict[str, str]:
        path = self.folder / "accounts.json"
        kept = dict(json.loads(path.read_text())) if path.is_file() else {}
        if set(ACCOUNTS) <= set(kept):
            return kept
        accounts = {name: secrets.token_urlsafe(24) for name in ACCOUNTS} | kept
        _write_private(path, json.dumps(accounts))
        return accounts

    def _render(self) -> None:
        for folder in ("data", "tmp"):
            (self.folder / folder).mkdir(exist_ok=True, mode=0o700)
        for name in ("login.config", "log4j.properties"):
            _write_private(self.folder / name, (_TEMPLATES / name).read_text())
        users = "".join(f"{name}={password}\n" for name, password in self.accounts.items())
        groups = "".join(f"{name}={name}\n" for name in self.accounts)
        _write_private(self.folder / "users.properties", users)
        _write_private(self.folder / "groups.properties", groups)
        _write_private(self.folder / "activemq.xml", self._configuration())

    def _configuration(self) -> str:
        return Template((_TEMPLATES / "activemq.xml").read_text()).substitute(
            name=escape(self.name),
            data=escape(str(self.folder / "data")),
            uri=escape(self._uri()),
            ssl=self._ssl_context(),
            store_limit=escape(self.store_limit),
        )

    def _uri(self) -> str:
        # Nagle's algorithm against delayed acknowledgements costs 10 to 20 ms a message.
        options = f"transport.tcpNoDelay=true&wireFormat.maxDataLength={_MESSAGE_LIMIT}"
        if self.tls:
            return f"stomp+ssl://{self.host}:{self.port}?needClientAuth=true&{options}"
        return f"stomp://{self.host}:{self.port}?{options}"

    def _ssl_context(self) -> str:
        if not self.tls:
            return ""
        return Template((_TEMPLATES / "ssl.xml").read_text()).substitute(
            keystore=escape(self.tls.keystore.resolve().as_uri()),
            truststore=escape(self.tls.truststore.resolve().as_uri()),
            password=escape(self.tls.password, {'"': "&quot;"}),
        )


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
