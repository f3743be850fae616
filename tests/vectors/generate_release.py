"""Write down what a release says and keeps, for the release after it to be held against.

    python -m tests.vectors.generate_release tests/vectors/release_before

Run it when a release is made, with the code of that release: what it writes is what agents in
the field speak while the next one is rolled out. It must not be run on later code.

- `records.json`: the members of every record that goes over the wire or stays on an agent's disk
  (`members` always stand there, `later` may be left out, `inside` names the record in a member),
  the kinds of frames, and the digest of each golden vector.
- `agent/`: the folder of an agent, and what it needs to go on: its keys, the keys that it pins.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from brokers.adapters.files import BundleFolder, Keys, RoutingFile, StateFile, SubscriptionFile
from brokers.control.routing import Routes
from brokers.data.subscriptions import Subscription
from policyengine import bundles
from policyengine.attributes import AttributeType
from policyengine.bundles import framing, header, state
from policyengine.events import TypeSpec
from policyengine.primitives import SealingKey, SeededRandom, SigningKey
from policyengine.primitives.canonical import b64
from policyengine.primitives.hashing import digest
from policyengine.primitives.records import Record
from tests.support.data_plane import Agent, Authority, Client, Organisation, Policy, spec

FOLDER = Path(__file__).parent
RECORDS: tuple[type[Record], ...] = (
    bundles.Acknowledgement,
    bundles.AgentContent,
    bundles.Announcement,
    bundles.ClientContent,
    bundles.ComparatorContent,
    bundles.Confirmation,
    bundles.Delivery,
    bundles.Lease,
    bundles.LeaseRequest,
    bundles.Notice,
    bundles.PublicationPart,
    bundles.Reply,
    bundles.SubscribeRequest,
    bundles.TrustAnchors,
    header.BundleHeader,
    state._Stored,
)
DOMAIN, AGENT = "flights", "agent:alpha"


# the forms of records


def shapes() -> dict[str, dict[str, Any]]:
    """Record -> its members; records inside of others stand there, too."""
    found: dict[str, dict[str, Any]] = {}
    for record in RECORDS:
        _add(record, found)
    return dict(sorted(found.items()))


def _add(record: type[Any], found: dict[str, dict[str, Any]]) -> None:
    if record.__name__ in found:
        return
    shape: dict[str, Any] = {"members": [], "later": [], "inside": {}}
    found[record.__name__] = shape
    hints = get_type_hints(record, include_extras=True)
    for item in fields(record):
        early = item.default is MISSING or item.metadata.get("written")
        shape["members" if early else "later"].append(item.name)
        for inner in _inside(hints[item.name].__metadata__[0]):
            shape["inside"][item.name] = inner.__name__
            _add(inner, found)


def _inside(codec: Any) -> Iterator[type[Any]]:
    """The records that a codec holds."""
    while hasattr(codec, "inner"):
        codec = codec.inner
    if hasattr(codec, "record"):
        yield codec.record


def vectors() -> dict[str, list[str]]:
    """File of golden vectors -> digest of each, which no later release may change."""
    return {path.stem: sorted(set(_vectors(path))) for path in sorted(FOLDER.glob("*.json"))}


def _vectors(path: Path) -> Iterator[str]:
    document = json.loads(path.read_text("utf-8"))
    for group in document.values() if isinstance(document, dict) else [document]:
        for one in group if isinstance(group, list) else [group]:
            yield digest(json.dumps(one, sort_keys=True).encode())


def records() -> dict[str, Any]:
    """Everything of `records.json`."""
    return {
        "control": [*framing.CONTROL_KINDS],
        "requests": [*framing.REQUEST_KINDS],
        "clients": [*framing.CLIENT_KINDS],
        "records": shapes(),
        "vectors": vectors(),
    }


# an agent's folder


def keys_of(name: str) -> Keys:
    """Keys that everybody may know."""
    random = SeededRandom(b"release before " + name.encode())
    return Keys(SealingKey(random.token(32)), SigningKey(random.token(32)))


def organisation() -> Organisation:
    """Whose agent it is: Ben was let in by the policy, and taken out by a notice."""
    homes = {"a": "alpha"}
    return Organisation(
        domain=DOMAIN,
        types=(TypeSpec("Flight", None, (spec("carrier", AttributeType("string")),)),),
        policies=(
            Policy("publish", "publish", "Flight", 'subject.role == "airline"'),
            Policy("read", "subscribe", "Flight", 'subject.role == "reader"'),
        ),
        agents={"alpha": Agent("alpha", "a", keys_of("alpha"))},
        clients={
            handle: Client(handle, {"role": role}, homes, keys_of(handle))
            for handle, role in (("p-air", "airline"), ("p-anna", "reader"), ("p-ben", "reader"))
        },
        authority=Authority(*(keys_of(role).signing
                              for role in ("policy", "notice", "lease", "receipt"))),
        secret=b"release before".ljust(32, b"."),
    )  # fmt: skip


def write_agent(folder: Path) -> None:
    """The folder of an agent at revision 7 that has seen notices 1, 2 and 4."""
    made = organisation()
    sealed = made.bundle(AGENT, 7)
    BundleFolder(folder / "bundles").save(DOMAIN, sealed.message)
    StateFile(folder / "trusted.json", AGENT).save(
        state.TrustedState(
            AGENT,
            {DOMAIN: state.Held(7, sealed.digest)},
            {DOMAIN: 2},
            {DOMAIN: frozenset({"p-ben"})},
            {DOMAIN: frozenset({4})},
        )
    )
    SubscriptionFile(folder / "subscriptions.json").save(
        [Subscription(DOMAIN, handle, "s1", "Flight", "") for handle in ("p-anna", "p-ben")]
    )
    RoutingFile(folder / "routing.json").save({DOMAIN: Routes("alpha", DOMAIN).to_json()})
    keys = keys_of("alpha")
    _write(
        folder / "keys.json",
        {"sealing": b64(keys.sealing.private), "signing": b64(keys.signing.private)},
    )
    _write(folder / "anchors.json", made.authority.anchors().to_json())


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def main(folder: Path) -> None:
    """Write everything."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "records.json", records())
    write_agent(folder / "agent")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
