"""What whoever enrols is told to trust, and where brokers stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from adminapp.core.authority import AuthorityClient, get_authority
from policyengine.bundles.enrolment import BrokerPlace, EnrolmentOffer
from policyengine.bundles.roots import SignedRoot, decode_roots, encode_root
from policyengine.errors import PortcullisError


def offer() -> EnrolmentOffer:
    """The root to pin, the issuer's certificate, and the brokers of the settings' file.

    Raises:
        ImproperlyConfigured: that file cannot be read.
        AuthorityUnavailable: the authority does not answer.
    """
    authority = get_authority()
    control, brokers = _brokers()
    return EnrolmentOffer(
        root=encode_root(_newest(authority)),
        authority=authority.certificate_authority(),
        control=control,
        brokers=brokers,
    )


def _newest(authority: AuthorityClient) -> SignedRoot:
    """The root in force; a message has so many, so one may have to ask again."""
    found = authority.root()
    while (last := decode_roots(found.roots)[-1]).claimed().version < found.version:
        found = authority.root(after=last.claimed().version)
    return last


def _brokers() -> tuple[str, dict[str, BrokerPlace]]:
    path: Path | None = settings.ENROLMENT_BROKERS
    if path is None:
        return "", {}
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        brokers = {
            str(name): BrokerPlace(str(each["host"]), each["port"], _ca(path.parent, each))
            for name, each in document["overlays"].items()
        }
        control = str(document["control"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PortcullisError) as error:
        raise ImproperlyConfigured(f"{path} does not say where brokers stand: {error}") from error
    if control not in brokers:
        raise ImproperlyConfigured(f"{path}: there is no overlay `{control}`")
    return control, brokers


def _ca(folder: Path, entry: dict[str, Any]) -> str:
    held = entry.get("ca")
    return (folder / str(held)).read_text(encoding="ascii") if held else ""
