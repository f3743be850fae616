"""A certificate that renews itself beside the work of an agent or a client."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.enrolment import EnrolmentRefused, EnrolmentUnreachable, Renewer
from brokers.adapters.logs import log
from policyengine.errors import PortcullisError

_LOGGER = logging.getLogger("portcullis.enrolment")


class RenewalThread:
    """Looks at the certificate now and then; new connections show the new one.

    Args:
        folder: of an enrolled agent or client.

    Raises:
        ConfigurationError: it is not one.
    """

    def __init__(self, folder: Path) -> None:
        self._renewer = Renewer(folder)
        self._renewer.dates()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="renewal", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join(5)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self.step()
            try:
                pause = self._renewer.pause()
            except ConfigurationError:
                pause = 60.0
            self._stopping.wait(pause)

    def step(self) -> None:
        """Renew if it is time; what fails is told and tried again."""
        try:
            if self._renewer.due():
                ends = self._renewer.renew()
                log(_LOGGER, logging.INFO, "certificate renewed", ends=ends.isoformat())
        except EnrolmentUnreachable as error:
            log(_LOGGER, logging.WARNING, "certificate not renewed yet", reason=str(error))
        except (EnrolmentRefused, ConfigurationError, PortcullisError, OSError) as error:
            log(_LOGGER, logging.ERROR, "certificate not renewed", reason=str(error))
