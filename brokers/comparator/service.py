"""A comparator as a whole: keys from the control plane, questions from agents."""

from __future__ import annotations

import logging
import threading

from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.clock import SystemClock
from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import (
    BundleFolder,
    FolderLock,
    Keys,
    StateFile,
    private_folder,
)
from brokers.adapters.logs import log, log_failure
from brokers.adapters.rootfile import kept_roots, load_pinned
from brokers.adapters.stomp import StompTransport
from brokers.comparator.config import ComparatorConfig
from brokers.comparator.keyring import Keyring
from brokers.comparator.server import ComparatorServer
from brokers.control.sync import Identity
from policyengine.bundles import audience

_LOGGER = logging.getLogger("portcullis.comparator")
_ROUND = 0.2
_PAUSE_AFTER_FAILURE = 1.0


class ComparatorService:
    """A running comparator.

    Args:
        config: see `ComparatorConfig`.

    Raises:
        ConfigurationError: a file is missing or wrong.
        StateError: its folder is damaged or in use, or its socket is.
        OSError: the socket cannot be made.
    """

    def __init__(self, config: ComparatorConfig) -> None:
        brokers = BrokersFile.load(config.brokers_file)
        pinned = load_pinned(config.anchors_file)
        keys = Keys.load(config.state / "keys.json")
        self._lock = FolderLock(private_folder(config.state))
        address = audience("comparator", config.name)
        self._control = StompTransport(brokers.control_broker(), name=f"{config.name}-control")
        self._keyring = Keyring(config.name)
        self._link = ControlLink(
            transport=self._control,
            identity=Identity(address, keys.sealing, pinned.anchors),
            signing_key=keys.signing,
            bundles=BundleFolder(config.state / "bundles"),
            state_file=StateFile(config.state / "trusted.json", address),
            roots=kept_roots(config.state / "roots.json", pinned),
            clock=SystemClock(),
            applier=self._keyring,
            lease_interval=config.lease_interval,
        )
        self._link.restore()
        self._server = ComparatorServer(config.socket, self._keyring, uids=config.uids)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="control", daemon=True)

    def start(self) -> None:
        """Start working; returns at once, whether the control broker can be reached or not."""
        self._link.listen()
        self._thread.start()
        log(_LOGGER, logging.INFO, "started", keys=len(self._keyring.slots))

    def stop(self) -> None:
        """Answer what was asked, disconnect, stop."""
        self._stopping.set()
        self._server.close()
        self._thread.join(10)
        self._control.close()
        self._lock.release()
        log(_LOGGER, logging.INFO, "stopped")

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                self._link.step(_ROUND)
            except Exception:  # noqa: BLE001 - the loop must outlive whatever happens in it
                log_failure(_LOGGER, "round failed", part="control")
                self._stopping.wait(_PAUSE_AFTER_FAILURE)
