"""Bundles to be changed, in every form in which they reach an agent, and who judges them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from brokers.control.intake import Intake, open_first, take_in
from brokers.control.sync import (
    Identity,
    after_bundle,
    check_follows,
    judge_bundle,
    judge_kept,
)
from policyengine.bundles import SealedBundle, TrustedState, contexts, difference, keep
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives import open_sealed, pack, seal_to, sign, unpack
from policyengine.primitives.signatures import SigningKey
from tests.support import bundle_samples as samples
from tests.support import roots
from tests.support.dice import Dice
from tests.support.mutations import Layer, Signature, Target

DOMAIN = "heating"
ADDRESS = f"{samples.ALPHA}|{DOMAIN}".encode()
ALPHA = samples.sealing_key("alpha")
ROOT = roots.root(1)
IDENTITY = Identity(samples.ALPHA, ALPHA, ROOT.anchors())
EMPTY = TrustedState(samples.ALPHA)
REFUSED = (RejectedError, DecodeError)
ROLES = ("policy", "notice", "lease", "receipt", "audit", "enrolment")
NOW = float(samples.NOW)


def wrong_keys(right: str) -> tuple[SigningKey, ...]:
    """Keys whose word does not count for a role: of other roles, times, parties, and strangers."""
    others = [roots.online(role) for role in ROLES if role != right]
    later = roots.online(right, 2)
    named = [samples.signing_key(name) for name in ("mallory", "beta", samples.HANDLE)]
    return (*others, later, *named, roots.holder("ada"))


def signer(role: str) -> Callable[[bytes, bytes], bytes]:
    """Signs as the authority does in a role."""
    return partial(sign, roots.online(role))


def make_bundle(**changes: Any) -> SealedBundle:
    """A bundle under root 1."""
    return samples.bundle(**{"sign": signer("policy"), **changes})


CONTENT = samples.agent_content()
BEFORE = samples.agent_content(lease_seconds=20, clients=())
HELD = make_bundle(content=BEFORE, revision=6)
STATE = after_bundle(
    EMPTY, judge_bundle(HELD.message, domain=DOMAIN, identity=IDENTITY, state=EMPTY, now=NOW).opened
)
WHOLE = make_bundle()
LATER = make_bundle(revision=8, content=samples.agent_content(lease_seconds=25))
DELTA = make_bundle(previous=HELD.digest, delta=difference(BEFORE, CONTENT))
DELTA_LATER = make_bundle(
    previous=HELD.digest,
    revision=9,
    content=samples.agent_content(wraps=()),
    delta=difference(BEFORE, samples.agent_content(wraps=())),
)
LARGE = make_bundle(limit=16 * 1024 + 64, chunk=700)
FOREIGN = (
    make_bundle(content=samples.agent_content(domain="flights")),
    samples.bundle(),
    make_bundle(root_version=2),
    make_bundle(sign=partial(sign, roots.online("policy", 2)), root_version=2),
    make_bundle(expires=samples.NOW),
    make_bundle(revision=5),
)


def _inside_bundle(message: bytes, domain: str = DOMAIN) -> bytes:
    address = f"{samples.ALPHA}|{domain}".encode()
    return open_sealed(ALPHA, unpack(message, 3)[2], info=contexts.BUNDLE + b"|" + address)


def _wrap_bundle(inside: bytes) -> bytes:
    sealed = seal_to(ALPHA.public, inside, info=contexts.BUNDLE + b"|" + ADDRESS)
    return pack(contexts.BUNDLE, ADDRESS, sealed)


def bundle_target(
    name: str,
    judge: Callable[[bytes], object],
    bundles: tuple[SealedBundle, ...],
    others: tuple[SealedBundle, ...] = (),
) -> Target:
    """Bundles of agent alpha in the form that a judge takes; `others` are good ones in a form
    that it does not take.
    """
    wires = tuple(each.message for each in bundles)
    inside = [
        *(_inside_bundle(each.message, domain) for each, domain in zip(
            FOREIGN, ("flights", *[DOMAIN] * 5), strict=True
        )),
        *(_inside_bundle(each.message) for each in others),
    ]  # fmt: skip
    return Target(
        name=name,
        layers=(
            Layer("wire", wires, lambda data: data),
            Layer("inside", tuple(map(_inside_bundle, wires)), _wrap_bundle),
        ),
        judge=judge,
        refusals=REFUSED,
        signature=Signature("inside", 0, 1, contexts.BUNDLE, wrong_keys("policy")),
        foreign={"inside": tuple(inside), "wire": tuple(each.message for each in FOREIGN)},
        forge=partial(_astray, tuple(map(_inside_bundle, wires))),
    )


def _astray(insides: tuple[bytes, ...], dice: Dice) -> bytes:
    """What a signer wrote, sealed for somebody or something else, or addressed so."""
    inside = dice.pick(insides)
    address = dice.pick((b"agent:beta|heating", b"agent:alpha|flights", b"client:alpha|heating"))
    recipient = dice.pick((ALPHA, samples.sealing_key("beta"), samples.sealing_key(samples.HANDLE)))
    purpose = dice.pick((contexts.BUNDLE, contexts.NOTICE, contexts.LEASE))
    kind = dice.below(4)
    written = address if kind in (0, 1) else ADDRESS
    bound = address if kind in (0, 2) else ADDRESS
    if kind == 3 and recipient is ALPHA and purpose == contexts.BUNDLE:
        purpose = contexts.KEPT
    sealed = seal_to(recipient.public, inside, info=purpose + b"|" + bound)
    return pack(dice.pick((contexts.BUNDLE, purpose)), written, sealed)


def _whole(wire: bytes) -> object:
    return judge_bundle(wire, domain=DOMAIN, identity=IDENTITY, state=STATE, now=NOW)


def _taken(wire: bytes) -> object:
    manifest = open_first(wire, domain=DOMAIN, identity=IDENTITY)
    check_follows(STATE, manifest, in_force=True, now=NOW)
    load = {DOMAIN: HELD.message}.get
    return after_bundle(STATE, take_in(manifest, wire, identity=IDENTITY, load=load).opened)


def _begun(wire: bytes) -> object:
    manifest = open_first(wire, domain=DOMAIN, identity=IDENTITY)
    check_follows(STATE, manifest, in_force=True, now=NOW)
    Intake(ALPHA).begin(manifest)
    return manifest


def chunk_target() -> Target:
    """The pieces of a large bundle that is waited for."""
    intake = Intake(ALPHA)
    intake.begin(open_first(LARGE.message, domain=DOMAIN, identity=IDENTITY))
    other = make_bundle(revision=11, limit=16 * 1024 + 64, chunk=700)
    place = pack(contexts.CHUNK, ADDRESS, LARGE.digest.encode(), b"\x00\x00")
    inside = tuple(_piece(LARGE, number) for number in range(len(LARGE.chunks)))
    return Target(
        name="chunk",
        layers=(
            Layer("wire", LARGE.chunks, lambda data: data),
            Layer("inside", inside[:1], lambda data: place + pack(_seal_piece(data))),
        ),
        judge=lambda wire: intake.add(DOMAIN, wire),
        refusals=REFUSED,
        foreign={
            "wire": (*other.chunks, WHOLE.message),
            "inside": (*inside[1:], _piece(other, 0)[:-1]),
        },
        changed=lambda: "a piece was kept" if intake._gathering[DOMAIN].held else "",
    )


def _piece(bundle: SealedBundle, number: int) -> bytes:
    *place, sealed = unpack(bundle.chunks[number], 5)
    return open_sealed(ALPHA, sealed, info=pack(*place))


def _seal_piece(data: bytes) -> bytes:
    place = (contexts.CHUNK, ADDRESS, LARGE.digest.encode(), b"\x00\x00")
    return seal_to(ALPHA.public, data, info=pack(*place))


def kept_target() -> Target:
    """What an agent finds on its own disk."""
    manifest = open_first(DELTA.message, domain=DOMAIN, identity=IDENTITY)
    info = contexts.KEPT + b"|" + ADDRESS

    def wrap(inside: bytes) -> bytes:
        return pack(contexts.KEPT, ADDRESS, seal_to(ALPHA.public, inside, info=info))

    kept = keep(manifest, CONTENT, key=ALPHA)
    return Target(
        name="kept",
        layers=(
            Layer("wire", (kept,), lambda data: data),
            Layer("inside", (open_sealed(ALPHA, unpack(kept, 3)[2], info=info),), wrap),
        ),
        judge=lambda wire: judge_kept(wire, domain=DOMAIN, identity=IDENTITY, state=STATE),
        refusals=REFUSED,
        signature=Signature("inside", 0, 1, contexts.BUNDLE, wrong_keys("policy")),
        foreign={"wire": (FOREIGN[0].message, FOREIGN[1].message)},
    )


def bundle_targets() -> tuple[Target, ...]:
    """Whole bundles, deltas, manifests, pieces, and what is kept of them."""
    return (
        bundle_target("bundle", _whole, (WHOLE, LATER), (DELTA, LARGE)),
        bundle_target("delta", _taken, (DELTA, DELTA_LATER), (LARGE,)),
        bundle_target("manifest", _begun, (LARGE,)),
        chunk_target(),
        kept_target(),
    )
