"""Comparators for tests: one in memory, and one as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from brokers.adapters.comparator_client import SocketComparator
from brokers.adapters.files import BundleFolder, Keys
from brokers.ports import ComparatorAway
from policyengine.bundles import ComparatorContent, OrderKey, build_bundle
from policyengine.errors import InputError
from policyengine.ope import ComparatorKey, KeyringComparator, Question, RangeKey
from policyengine.primitives.signatures import sign
from tests.support.data_plane import PATIENCE, Authority, Organisation, keys_document, wait_until

ROOT = Path(__file__).resolve().parents[2]
DAY = 86_400


class MemoryComparator:
    """The port without a process (`brokers.ports.ComparatorPort`); `away` takes it away."""

    def __init__(self, keys: Iterable[ComparatorKey]) -> None:
        self._inner = KeyringComparator(keys)
        self.away = False

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Answer, or say that it is away."""
        if self.away:
            raise ComparatorAway("the comparator does not answer")
        try:
            return self._inner.compare(questions)
        except InputError as error:
            raise ComparatorAway("the comparator refused") from error

    def close(self) -> None:
        """Nothing to close."""


class ComparatorProcess:
    """One `python -m brokers.comparator run` in a folder of its own.

    Args:
        folder: an empty folder.
        keys: what its bundle holds.
    """

    def __init__(self, folder: Path, keys: Iterable[RangeKey], domain: str = "flights") -> None:
        self.folder = folder
        self.socket = folder / "socket"
        self._authority = Authority()
        self._process: subprocess.Popen[bytes] | None = None
        state = folder / "state"
        self._keys = Keys.create(state / "keys.json")
        (folder / "anchors.json").write_text(json.dumps(self._authority.anchors().to_json()))
        # Nobody listens there, and nobody begins to.
        brokers = {"host": "127.0.0.1", "port": 1, "login": "", "passcode": ""}
        document = {"control": "a", "overlays": {"a": {**brokers, "tls": None}}}
        (folder / "brokers.json").write_text(json.dumps(document))
        (folder / "brokers.json").chmod(0o600)
        (folder / "comparator.toml").write_text(
            'name = "beside"\nsocket = "socket"\nstate = "state"\n'
            'brokers_file = "brokers.json"\nanchors_file = "anchors.json"\n'
        )
        self.install(keys, domain)

    def install(self, keys: Iterable[RangeKey], domain: str = "flights", revision: int = 1) -> None:
        """Put a bundle where the process finds it when it starts."""
        content = ComparatorContent(
            domain,
            "beside",
            tuple(
                OrderKey(
                    key.slot.type,
                    key.slot.attribute,
                    key.slot.epoch,
                    "current",
                    key.comparator_key().to_bytes(),
                )
                for key in keys
            ),
        )
        now = int(time.time())
        bundle = build_bundle(
            domain=domain,
            audience="comparator:beside",
            revision=revision,
            previous="",
            issued=now,
            expires=now + DAY,
            root_version=1,
            content=content,
            sign=partial(sign, self._authority.policy),
            recipient=self._keys.sealing.public,
        )
        BundleFolder(self.folder / "state" / "bundles").save(domain, bundle.message)

    @classmethod
    def governed(
        cls, folder: Path, organisation: Organisation, name: str, brokers_file: Path
    ) -> ComparatorProcess:
        """One whose bundles come over the control broker.

        Args:
            folder: an empty folder.
            organisation: it has the comparator's keys.
            name: the comparator's.
            brokers_file: for the account of comparators.
        """
        made = cls.__new__(cls)
        made.folder, made.socket, made._process = folder, folder / "socket", None
        made._authority, made._keys = organisation.authority, organisation.comparators[name]
        (folder / "state").mkdir(parents=True)
        (folder / "state" / "keys.json").touch(mode=0o600)
        (folder / "state" / "keys.json").write_text(json.dumps(keys_document(made._keys)))
        (folder / "anchors.json").write_text(json.dumps(organisation.authority.anchors().to_json()))
        (folder / "comparator.toml").write_text(
            f'name = "{name}"\nsocket = "socket"\nstate = "state"\n'
            f'brokers_file = "{brokers_file}"\nanchors_file = "anchors.json"\n'
            "lease_interval = 0.5\n"
        )
        return made

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def start(self, seconds: float = PATIENCE) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "brokers.comparator", "run", "--config", "comparator.toml"],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )
        client = self.client()
        wait_until(lambda: _answers(client), f"the comparator: {self.text()}", seconds)
        client.close()

    def client(self) -> SocketComparator:
        """A client of it."""
        return SocketComparator(self.socket)

    def text(self) -> str:
        """What it logged."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(120)


def _answers(client: SocketComparator) -> bool:
    try:
        client.compare([Question("c" + "0" * 48, b"", ())])
    except ComparatorAway as error:
        return "refused" in str(error)
    return False
