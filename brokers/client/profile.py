"""A client's profile folder: who it is, its keys, and what it keeps.

profile.json   handle, domain, brokers_file, anchors_file
keys.json      private keys, mode 0600
enrolment.json where it renews its certificate, of a client that `policyctl enrol` made
state/         trusted state, received bundles (sealed), subscriptions, window
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import BrokersFile, ConfigurationError
from brokers.adapters.enrolment import ENROLMENT
from brokers.adapters.files import (
    Keys,
    StateError,
    private_folder,
    write_atomically,
)
from brokers.adapters.rootfile import Pinned, load_pinned
from brokers.client.errors import ProfileError
from policyengine.bundles import identifier
from policyengine.errors import InputError

_FIELDS = ("handle", "domain", "brokers_file", "anchors_file")


@dataclass(frozen=True)
class Profile:
    """An opened profile.

    Args:
        folder: where it lies.
        handle: the client's pseudonym.
        domain: the domain it belongs to.
        brokers: where the brokers stand.
        pinned: the root of the authority to begin with, or its keys.
        keys: private keys.
    """

    folder: Path
    handle: str
    domain: str
    brokers: BrokersFile
    pinned: Pinned
    keys: Keys = field(repr=False)

    @property
    def enrolled(self) -> bool:
        """Whether its certificate renews itself."""
        return (self.folder / ENROLMENT).is_file()

    @property
    def state(self) -> Path:
        """The folder for what the client keeps."""
        return private_folder(self.folder / "state")

    @classmethod
    def load(cls, folder: str | Path) -> Profile:
        """Open a profile folder.

        Raises:
            ProfileError: something is missing or wrong.
        """
        folder = Path(folder)
        try:
            document = _read(folder / "profile.json")
            return cls(
                folder=folder,
                handle=identifier(document["handle"], "handle"),
                domain=identifier(document["domain"], "domain"),
                brokers=BrokersFile.load(folder / document["brokers_file"]),
                pinned=load_pinned(folder / document["anchors_file"]),
                keys=Keys.load(folder / "keys.json"),
            )
        except (ConfigurationError, StateError, InputError) as error:
            raise ProfileError(str(error)) from None


def create_profile(
    folder: str | Path,
    *,
    handle: str,
    domain: str,
    brokers_file: str | Path,
    anchors_file: str | Path,
) -> dict[str, str]:
    """Make a profile folder with fresh keys; existing keys are kept.

    Args:
        folder: made if it is not there.
        handle: the pseudonym that the control plane gave.
        domain: the domain's name.
        brokers_file: path of the brokers file, absolute or from the folder.
        anchors_file: path of the trust anchors, absolute or from the folder.

    Returns:
        The public keys `sealing_key` and `verify_key` as base64, to be registered.

    Raises:
        InputError: handle or domain is no identifier.
    """
    folder = private_folder(Path(folder))
    document = {
        "handle": identifier(handle, "handle"),
        "domain": identifier(domain, "domain"),
        "brokers_file": str(brokers_file),
        "anchors_file": str(anchors_file),
    }
    keys = Keys.create(folder / "keys.json")
    write_atomically(folder / "profile.json", json.dumps(document, indent=1).encode())
    return keys.public()


def _read(path: Path) -> dict[str, str]:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise ProfileError(f"{path}: not JSON") from None
    if not isinstance(document, dict) or set(document) != set(_FIELDS):
        raise ProfileError(f"{path}: needs exactly {', '.join(_FIELDS)}")
    return {name: str(value) for name, value in document.items()}
