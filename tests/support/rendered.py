"""A running ActiveMQ on rendered configuration, and certificates for whoever signs in there."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from adminapp.distribution.standing import Standing
from brokers.adapters.stomp import BrokerConfig, StompTransport
from brokers.adapters.stomp import TlsConfig as Files
from tasks.activemq.render import Settings, render, write
from tasks.activemq.rights import control_rights
from tasks.local.activemq import TlsClient, java
from tasks.local.processes import Child
from tests.support.certificates import Issuer
from tests.support.data_plane import wait_until
from tests.support.ports import free_port
from tests.support.stomp_client import StompClient


@dataclass
class Rendered:
    """A running broker, and who may show which certificate.

    It has what `StompClient` asks of a broker; accounts mean nothing to this one.
    """

    folder: Path
    issuer: Issuer
    certificates: dict[str, TlsClient]
    port: int = field(default_factory=free_port)
    host: str = "127.0.0.1"

    @property
    def accounts(self) -> dict[str, str]:
        return dict.fromkeys(self.certificates, "unused")

    def render(self, standing: Standing) -> dict[str, str]:
        settings = Settings("a", host=self.host, port=self.port, store_mb=128)
        return write(self.folder, render(settings, control_rights(standing, overlay="a")))

    def client(self, who: str) -> StompClient:
        files = self.certificates[who]
        context = ssl.create_default_context(cafile=files.ca)
        context.load_cert_chain(files.certificate, files.key)
        return self.bare(who, context)

    def bare(self, who: str, context: ssl.SSLContext | None = None) -> StompClient:
        return StompClient(self, who, context=context)  # type: ignore[arg-type]

    def transport(self, who: str) -> StompTransport:
        files = self.certificates[who]
        tls = Files(files.ca, files.certificate, files.key)
        return StompTransport(BrokerConfig(self.host, self.port, tls=tls), name=who)

    def connected(self, who: str) -> bool:
        with contextlib.suppress(OSError), self.client(who) as client:
            return client.connect().command == "CONNECTED"
        return False

    @contextlib.contextmanager
    def running(self, standing: Standing) -> Iterator[None]:
        """The broker, started by one command on what is rendered, and stopped afterwards."""
        self.render(standing)
        self.issuer.equip(self.folder)
        for name in ("data", "tmp"):
            (self.folder / name).mkdir()
        child = Child(
            "rendered",
            java.command(self.folder),
            log=self.folder / "log",
            env=java.environment(),
            cwd=self.folder,
        )
        child.start()
        try:
            wait_until(lambda: self.connected("control"), "the broker to start", 120)
            yield
        finally:
            child.stop()
