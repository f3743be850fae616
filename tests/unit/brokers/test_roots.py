"""Agents, clients and comparators follow the root, to where its holders lead and nowhere else."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateError, StateFile
from brokers.adapters.rootfile import RootFile, kept_roots, load_anchors, load_pinned
from brokers.control.sync import Identity
from policyengine.bundles import (
    Lease,
    SignedRoot,
    build_bundle,
    control_queue,
    encode_root,
    encode_roots,
    open_root,
    seal_lease,
)
from policyengine.bundles.roots import MAX_ROOTS
from policyengine.primitives import sign
from tests.support.clocks import Clock
from tests.support.control_rig import ALPHA, ORGANISATION, Applied, Rig
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.roots import ISSUED, YEAR, chain, holder, online, root, signed

FIRST, SECOND, THIRD = chain(3)
CONTENT = ORGANISATION.agent_content("alpha")


class RootRig(Rig):
    """Agent alpha's control side with a pinned root, at a control plane under any root."""

    def __init__(
        self, folder: Path, broker: MemoryBroker | None = None, *, pinned: SignedRoot = FIRST
    ) -> None:
        self.broker = broker or MemoryBroker()
        self.keys, self.clock, self.applied = ORGANISATION.public_keys(ALPHA), Clock(), Applied()
        self.clock.time = ISSUED + 100.0
        self.roots = RootFile(folder / "roots.json", pinned)
        self.transport = MemoryTransport(self.broker)
        self.link = ControlLink(
            transport=self.transport,
            identity=Identity(ALPHA, self.keys.sealing, open_root(pinned).anchors()),
            signing_key=self.keys.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=StateFile(folder / "trusted.json", ALPHA),
            clock=self.clock,
            applier=self.applied,
            roots=self.roots,
        )
        self.link.restore()
        self.link.listen()

    def under(self, generation: int, revision: int) -> None:
        """A bundle as the authority signs it under some root, and a round."""
        made = build_bundle(
            domain="flights",
            audience=ALPHA,
            revision=revision,
            previous="",
            issued=ISSUED,
            expires=ISSUED + 100 * YEAR,
            root_version=generation,
            content=CONTENT,
            sign=partial(sign, online("policy", generation)),
            recipient=self.keys.sealing.public,
        )
        self.give("bundle", made.message)

    def send(self, *roots: SignedRoot) -> None:
        self.give("root", encode_roots(roots), domain="")

    def lease(self, generation: int, **changes: Any) -> None:
        """An answer to its newest question, and a round."""
        self.clock.time += 10
        self.link.step(0)
        fields: dict[str, Any] = {
            "audience": ALPHA,
            "nonce": self.requests("lease")[-1].nonce,
            "time": self.clock.time,
            "seconds": {"flights": 30},
            "domains": {"flights": {"minimum_revision": 0, "minimum_notice": 0}},
        }
        sealed = seal_lease(
            Lease(**(fields | changes)),
            sign=partial(sign, online("lease", generation)),
            recipient=self.keys.sealing.public,
        )
        self.give("lease", sealed, domain="")

    @property
    def reasons(self) -> list[str]:
        return [one.reason for one in self.link.rejections]

    @property
    def standing(self) -> str:
        return self.link.standing("flights")


@pytest.fixture
def rig(tmp_path: Path) -> RootRig:
    made = RootRig(tmp_path)
    made.under(1, 1)
    made.lease(1)
    assert made.standing == "serving"
    return made


def test_an_agent_follows_and_believes_retired_keys_no_more(rig: RootRig, tmp_path: Path) -> None:
    rig.send(SECOND)
    assert rig.link.root_version == 2
    # What the lease key before vouched for is over; its next question says where it stands.
    assert rig.standing == "no-lease"
    assert rig.requests("lease")[-1].root == 2
    rig.lease(1)
    rig.under(1, 2)
    assert rig.reasons == ["signature", "signature"]
    assert rig.standing == "no-lease"
    rig.lease(2, root=2)
    rig.under(2, 2)
    assert rig.applied.revisions == [1, 2]
    assert rig.standing == "serving"
    again = RootRig(tmp_path)
    assert again.link.root_version == 2
    assert again.applied.revisions == [2]


def test_several_roots_at_once_and_again_change_nothing_twice(rig: RootRig) -> None:
    rig.send(SECOND, THIRD)
    assert rig.link.root_version == 3
    rig.lease(3, root=3)
    rig.send(SECOND, THIRD)
    rig.send(THIRD)
    assert rig.reasons == []
    assert rig.standing == "serving"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ((signed(root(2, generation=2), ["ada"]),), "signature"),
        ((signed(root(2, generation=2), ["eve", "mal"]),), "signature"),
        ((signed(root(2, holders=(holder("eve").public,), threshold=1), ["eve"]),), "signature"),
        ((THIRD,), "previous"),
        ((SECOND, signed(root(3, generation=3), ["ben"])), "signature"),
        ((signed(root(2, generation=2, expires=ISSUED + 1)),), "expired"),
    ],
)
def test_roots_that_may_not_follow(
    rig: RootRig, tmp_path: Path, sent: tuple[SignedRoot, ...], reason: str
) -> None:
    rig.send(*sent)
    assert rig.reasons == [reason]
    assert rig.link.root_version == 1
    assert not (tmp_path / "roots.json").exists()
    # Nothing of it is half-believed: what was served is served.
    assert rig.standing == "serving"
    rig.under(1, 2)
    assert rig.applied.revisions == [1, 2]


def test_it_never_goes_back(rig: RootRig, tmp_path: Path) -> None:
    rig.send(SECOND, THIRD)
    rig.send(SECOND)
    assert rig.reasons == ["rollback"]
    assert rig.link.root_version == 3
    assert RootRig(tmp_path).link.root_version == 3
    # Another file of a first root does not lead it back, and one of another chain stops it.
    other = signed(root(holders=(holder("eve").public,), threshold=1), ["eve"])
    with pytest.raises(StateError, match="does not lead"):
        RootRig(tmp_path, pinned=other)


def test_a_person_may_pin_a_newer_one(rig: RootRig, tmp_path: Path) -> None:
    rig.send(SECOND)
    fifth = signed(root(5, generation=5))
    assert RootRig(tmp_path, pinned=fifth).link.root_version == 5
    # The first pinned again, after roots were kept that begin later: it stays where it is.
    again = RootRig(tmp_path, pinned=fifth)
    again.send(signed(root(6, generation=6)))
    assert RootRig(tmp_path, pinned=FIRST).link.root_version == 6


def test_who_keeps_a_root_back_gets_nothing_delivered(rig: RootRig) -> None:
    # The lease key stayed the same, only the policy key was exchanged: the lease says so.
    rig.lease(1, root=2)
    assert rig.reasons == ["root"]
    rig.clock.time += 31
    assert rig.standing == "lease-over"


def test_an_expired_root_ends_delivery_whatever_a_stolen_key_says(rig: RootRig) -> None:
    rig.clock.time = ISSUED + YEAR - 30.0
    rig.lease(1)
    assert rig.standing == "serving"
    rig.clock.time = ISSUED + YEAR + 5.0
    rig.lease(1, time=float(ISSUED))
    assert rig.reasons == ["expired"]
    rig.clock.time += 31
    assert rig.standing == "lease-over"
    # The next root, freshly issued, is all that it takes.
    rig.send(signed(root(2, issued=ISSUED + YEAR, expires=ISSUED + 2 * YEAR)))
    rig.lease(1)
    assert rig.standing == "serving"


def test_a_clock_far_behind_does_not_keep_an_expired_root(rig: RootRig) -> None:
    rig.lease(1, time=float(ISSUED + 2 * YEAR))
    assert rig.reasons == ["expired"]


def test_a_chain_longer_than_a_message(rig: RootRig) -> None:
    roots = chain(MAX_ROOTS + 3)[1:]
    old = [signed(root(2, generation=2, expires=ISSUED + 1)), *roots[1:]]
    rig.send(*old[:MAX_ROOTS])
    rig.send(*old[MAX_ROOTS:])
    assert rig.link.root_version == MAX_ROOTS + 3


def test_only_a_root_lets_a_revision_go_back(rig: RootRig, tmp_path: Path) -> None:
    rig.under(1, 2**62)  # somebody with the policy key ran far ahead
    rig.send(SECOND)
    rig.under(2, 2)
    assert rig.reasons == ["rollback"]
    rig.send(signed(root(3, generation=3, reset=("flights",))))
    assert rig.standing == "no-policy"
    rig.under(3, 2)
    rig.lease(3, root=3)
    assert rig.standing == "serving"
    again = RootRig(tmp_path)
    assert again.link.view.state.revisions["flights"].revision == 2


def test_a_reset_is_made_up_for_after_a_crash(rig: RootRig, tmp_path: Path) -> None:
    third = signed(root(2, generation=2, reset=("flights",)))
    rig.roots.save([third])  # and the process died before the state was written
    again = RootRig(tmp_path)
    assert again.link.root_version == 2
    assert again.link.view.state.revisions == {}
    again.under(2, 1)
    # Once only: what came since stays.
    assert RootRig(tmp_path).link.view.state.revisions["flights"].revision == 1


def test_a_root_that_is_not_on_disk_is_not_believed(
    rig: RootRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(rig.roots, "save", full)
        rig.send(SECOND)
    assert rig.link.root_version == 1
    # Not acknowledged, so it comes again.
    rig.transport.unsubscribe(control_queue(ALPHA))
    assert len(rig.broker.bodies(control_queue(ALPHA))) == 1


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"roots":[],"settled":1}', b"[]"])
def test_a_damaged_chain_stops_the_start(rig: RootRig, tmp_path: Path, damage: bytes) -> None:
    rig.send(SECOND)
    (tmp_path / "roots.json").write_bytes(damage)
    with pytest.raises(StateError, match="damaged"):
        RootRig(tmp_path)


def test_rubbish_is_refused(rig: RootRig) -> None:
    rig.give("root", b"[{}]", domain="")
    assert rig.reasons == ["malformed"]


def test_files_of_earlier_releases_pin_keys_that_lead_nowhere(tmp_path: Path) -> None:
    anchors = ORGANISATION.authority.anchors()
    path = tmp_path / "anchors.json"
    path.write_text(json.dumps(anchors.to_json(), indent=2))
    pinned = load_pinned(path)
    assert pinned.anchors == load_anchors(path) == anchors
    assert kept_roots(tmp_path / "roots.json", pinned) is None
    rig = Rig(tmp_path, MemoryBroker())
    rig.give("root", encode_roots([SECOND]), domain="")
    assert [one.reason for one in rig.link.rejections] == ["signature"]
    rig.bundle(1)
    assert rig.applied.revisions == [1]


def test_a_pinned_file_holds_a_root_that_its_holders_signed(tmp_path: Path) -> None:
    path = tmp_path / "root.json"
    path.write_bytes(encode_root(FIRST))
    pinned = load_pinned(path)
    assert pinned.anchors == root().anchors()
    kept = kept_roots(tmp_path / "roots.json", pinned)
    assert kept is not None
    assert kept.load() == root()
    for wrong in (encode_root(signed(root(), ["ada"])), b"{}", b'{"format":"x"}', b"nothing"):
        path.write_bytes(wrong)
        with pytest.raises(ConfigurationError, match="not a file of trust anchors"):
            load_pinned(path)
    with pytest.raises(ConfigurationError):
        load_pinned(tmp_path / "nothing")
