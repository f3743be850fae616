"""What lies in the dead letters of a fault test's agents, opened: which events, and why.

The letters are read from the broker and opened with keys that the play was given, so that nothing
is believed of what an agent says that it put aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.adapters.files import Keys
from policyengine.bundles import RoutedPart, dead_queue, hop_kind, open_hop
from policyengine.bundles.confirmations import open_waiting
from policyengine.bundles.model import Wrap
from policyengine.primitives.canonical import b64, unb64, unpack
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.trustgroups.wraps import open_wrap
from tests.support.fault_domain import DOMAIN
from tests.support.fault_site import FaultSite
from tests.support.histories import Line
from tests.support.stomp_client import Frame, StompClient

_AUDIENCE = "agent:judge"
_QUIET = 2.0
"""Seconds without a further message after which a queue is taken to be empty."""


def letters(site: FaultSite) -> list[Line]:
    """A line for everything in the dead letters of the site's agents; takes it out.

    `aside`: `who` (the agent), `reason`, `publication` ("" where it is no event), and `client`
    where it was put aside as it waited for one ("" otherwise). Left out is what came from clients
    and was never accepted, and what agents tell each other about routing under a key that is
    retired: they tell it again.

    Raises:
        RejectedError: a letter that no agent of the site wrote, or of which no key is known.
    """
    found: list[Line] = []
    keys = {name: Keys.load(site.folder / name / "state" / "keys.json") for name in site.agents}
    hop_keys = _overlay_keys(site)
    for agent, overlay in sorted(site.agents.items()):
        for frame in _taken(site, agent):
            kind, _, place = frame.headers.get("from-queue", "").removeprefix("pc.").partition(".")
            routing = kind == "hop" and hop_kind(frame.body) != "event"
            if kind == "in" or (routing and frame.headers["reason"] == "epoch-retired"):
                continue
            part: RoutedPart | None = None
            if kind == "back":
                mine = keys[agent]
                part = open_waiting(
                    unpack(frame.body, 2)[1],
                    key=mine.sealing, public=mine.signing.public, agent=agent,
                )  # fmt: skip
            elif kind == "hop" and not routing:
                part = open_hop(
                    frame.body,
                    hop_keys=hop_keys[f"overlay:{overlay}"],
                    verify=lambda name: keys[name].signing.public,
                )
            found.append(
                {
                    "at": int(frame.headers["timestamp"]) / 1000,
                    "what": "aside",
                    "who": agent,
                    "reason": frame.headers["reason"],
                    "publication": "" if part is None else part.publication,
                    "client": place.rpartition(".")[2] if kind == "back" else "",
                }
            )
    return found


def _taken(site: FaultSite, agent: str) -> list[Frame]:
    found: list[Frame] = []
    with StompClient(site.broker_of(agent), "control") as client:
        assert client.connect().command == "CONNECTED"
        assert client.subscribe(dead_queue(agent)).command == "RECEIPT"
        while (frame := client.receive(timeout=_QUIET)) is not None:
            found.append(frame)
    return found


def _overlay_keys(site: FaultSite) -> Mapping[str, dict[int, bytes]]:
    mine = generate_sealing_key()
    rows: list[list[Any]] = site.call("overlay-keys", DOMAIN, b64(mine.public), _AUDIENCE)
    found: dict[str, dict[int, bytes]] = {}
    for group, epoch, sealed in rows:
        wrap = Wrap(group, epoch, unb64(sealed))
        found.setdefault(group, {})[epoch] = open_wrap(wrap, mine, audience=_AUDIENCE)
    return found
