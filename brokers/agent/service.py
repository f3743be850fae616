"""An agent as a whole: its parts put together, its threads, its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.clock import SystemClock
from brokers.adapters.comparator_client import SocketComparator
from brokers.adapters.control_link import ControlLink
from brokers.adapters.decisions import DecisionFolder
from brokers.adapters.disk import DiskWatch
from brokers.adapters.files import (
    BundleFolder,
    FolderLock,
    Keys,
    RoutingFile,
    StateFile,
    SubscriptionFile,
    private_folder,
)
from brokers.adapters.logs import log, log_failure
from brokers.adapters.renewing import RenewalThread
from brokers.adapters.rootfile import kept_roots, load_pinned
from brokers.adapters.seen import SeenLog
from brokers.adapters.stomp import StompTransport
from brokers.adapters.windows import WindowFile
from brokers.agent.backlog import Backlogs
from brokers.agent.config import AgentConfig
from brokers.agent.dataplane import DataPlane
from brokers.agent.decisions import DecisionShipper
from brokers.agent.policy import PolicyInForce, Progress
from brokers.agent.report import Report
from brokers.agent.routing import OverlayRouting
from brokers.agent.statistics import Statistics
from brokers.agent.status import StatusServer
from brokers.control.sync import Identity
from policyengine.bundles import audience

_LOGGER = logging.getLogger("portcullis.agent")
_CONTROL_ROUND = 0.1
_DATA_ROUND = 0.2
_DECISIONS_ROUND = 0.5
_PAUSE_AFTER_FAILURE = 1.0


class Agent:
    """A running agent.

    Args:
        config: see `AgentConfig`.

    Raises:
        ConfigurationError: a file is missing or wrong.
        StateError: its folder is damaged or in use.
        OSError: the status port is taken.
    """

    def __init__(self, config: AgentConfig) -> None:
        brokers = BrokersFile.load(config.brokers_file)
        pinned = load_pinned(config.anchors_file)
        enrolled = config.enrolment_file
        self._renewal = RenewalThread(enrolled.parent) if enrolled is not None else None
        keys = Keys.load(config.state / "keys.json")
        self._lock = FolderLock(private_folder(config.state))
        clock, statistics, progress = SystemClock(), Statistics(), Progress()
        disk = DiskWatch(config.state, clock)
        self._name = name = config.name
        self._control = StompTransport(
            config.secured(brokers.control_broker()), name=f"{name}-control"
        )
        self._data = StompTransport(
            config.secured(brokers.overlay(config.overlay)),
            name=f"{name}-data",
            inbox_bytes=config.inbox_bytes,
        )
        self._seen = SeenLog(config.state / "seen.sqlite", seconds=config.window_seconds)
        self._window_file = WindowFile(config.state / "windows.sqlite")
        backlogs = Backlogs(self._window_file, limit=config.client_window)
        self._comparator = SocketComparator(config.comparator) if config.comparator else None
        self._policy = PolicyInForce(
            agent=name,
            overlay=config.overlay,
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(config.state / "subscriptions.json"),
            progress=progress,
            comparator=self._comparator,
        )
        self._link = ControlLink(
            transport=self._control,
            identity=Identity(audience("agent", name), keys.sealing, pinned.anchors),
            signing_key=keys.signing,
            bundles=BundleFolder(config.state / "bundles"),
            state_file=StateFile(config.state / "trusted.json", audience("agent", name)),
            roots=kept_roots(config.state / "roots.json", pinned),
            clock=clock,
            applier=self._policy,
            lease_interval=config.lease_interval,
            on_disk_failure=disk.failed,
        )
        self._decisions = DecisionFolder(
            config.state / "decisions", full_after=config.decision_interval
        )
        self._shipper = DecisionShipper(
            agent=name,
            folder=self._decisions,
            policy=self._policy,
            transport=self._control,
            signing_key=keys.signing,
            clock=clock,
        )
        self._plane = DataPlane(
            agent=name,
            keys=keys,
            transport=self._data,
            policy=self._policy,
            standing=self._link.standing,
            now=self._link.now,
            seen=self._seen,
            statistics=statistics,
            progress=progress,
            clock=clock,
            batch=config.batch,
            prefetch=config.prefetch,
            backlogs=backlogs,
            decisions=self._decisions,
            disk=disk,
            routing=OverlayRouting(
                agent=name,
                keys=keys,
                policy=self._policy,
                now=self._link.now,
                clock=clock,
                store=RoutingFile(config.state / "routing.json"),
            ),
        )
        report = Report(
            agent=name,
            overlay=config.overlay,
            control=self._control,
            data=self._data,
            link=self._link,
            policy=self._policy,
            statistics=statistics,
            clock=clock,
            windows=backlogs.windows,
            disk=disk,
        )
        self._link.restore()
        pages = {
            "/health": report.health,
            "/ready": report.ready,
            "/status": report.status,
            "/metrics": report.metrics,
        }
        self._status = StatusServer(config.http_port, pages)
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def http_port(self) -> int:
        """The port of the status pages."""
        return self._status.port

    def start(self) -> None:
        """Start working; returns at once, whether the brokers can be reached or not."""
        if self._renewal is not None:
            self._renewal.start()
        self._link.listen()
        self._data.start()
        self._run("control", lambda: self._link.step(_CONTROL_ROUND))
        self._run("decisions", self._ship)
        self._run("data", lambda: self._plane.step(_DATA_ROUND))
        log(_LOGGER, logging.INFO, "started", http_port=self.http_port)

    def stop(self) -> None:
        """Finish what is under way, disconnect, stop."""
        self._stopping.set()
        if self._renewal is not None:
            self._renewal.stop()
        for thread in self._threads:
            thread.join(30)
        self._decisions.close(self._link.now())
        self._data.close()
        if self._comparator is not None:
            self._comparator.close()
        self._control.close()
        self._status.close()
        self._seen.close()
        self._window_file.close()
        self._lock.release()
        log(_LOGGER, logging.INFO, "stopped")

    def _ship(self) -> None:
        self._shipper.step()
        self._stopping.wait(_DECISIONS_ROUND)

    def _run(self, name: str, round_: Callable[[], None]) -> None:
        # With the agent's name: a process may hold several, and logs say which thread it was.
        title = f"{self._name}-{name}"
        thread = threading.Thread(target=self._loop, args=(name, round_), name=title, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _loop(self, name: str, round_: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                round_()
            except Exception:  # noqa: BLE001 - the loop must outlive whatever happens in it
                log_failure(_LOGGER, "round failed", part=name)
                self._stopping.wait(_PAUSE_AFTER_FAILURE)
