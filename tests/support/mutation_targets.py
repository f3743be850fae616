"""What is changed and who judges it: the protocol's signed messages with their real readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from brokers.control.lease import LeaseBook
from brokers.control.roots import Followed, check_lease, follow
from brokers.control.sync import judge_notice
from policyengine.bundles import (
    contexts,
    decode_request,
    encode_roots,
    make_request,
    open_lease,
    open_request,
    seal_lease,
    seal_notice,
    sign_ack,
    sign_lease_request,
    sign_receipt,
    verify_ack,
    verify_lease_request,
    verify_receipt,
)
from policyengine.bundles.enrolment import (
    EnrolmentQuestion,
    EnrolmentRenewal,
    EnrolmentRequest,
    sign_enrolment,
    verify_enrolment,
    verify_enrolment_request,
)
from policyengine.bundles.roots import Root, open_root
from policyengine.errors import DecodeError, InputError, RejectedError, SignatureError
from policyengine.primitives import open_sealed, pack, seal_to, sign, unpack
from policyengine.primitives.signatures import SigningKey
from tests.support import bundle_samples as samples
from tests.support import roots
from tests.support.dice import Dice
from tests.support.mutation_bundles import (
    ADDRESS,
    ALPHA,
    DOMAIN,
    IDENTITY,
    NOW,
    REFUSED,
    ROLES,
    ROOT,
    STATE,
    bundle_targets,
    signer,
    wrong_keys,
)
from tests.support.mutations import Layer, Signature, Target, edit

# -- notices and leases -------------------------------------------------------------------------


def sealed_target(
    name: str,
    context: bytes,
    judge: Callable[[bytes], object],
    messages: tuple[bytes, ...],
    foreign: tuple[bytes, ...],
) -> Target:
    """Messages of the authority that are signed for an address and sealed."""
    info = context + b"|" + samples.ALPHA.encode()

    def inside(message: bytes) -> bytes:
        return open_sealed(ALPHA, message, info=info)

    def astray(dice: Dice) -> bytes:
        recipient = dice.pick((samples.sealing_key("beta"), samples.sealing_key(samples.HANDLE)))
        bound = dice.pick((info, context + b"|agent:beta", contexts.BUNDLE + b"|" + ADDRESS))
        key = recipient if bound == info else dice.pick((recipient, ALPHA))
        return seal_to(key.public, inside(dice.pick(messages)), info=bound)

    return Target(
        name=name,
        layers=(
            Layer("wire", messages, lambda data: data),
            Layer(
                "inside",
                tuple(map(inside, messages)),
                lambda data: seal_to(ALPHA.public, data, info=info),
            ),
        ),
        judge=judge,
        refusals=REFUSED,
        signature=Signature(
            "inside",
            1,
            2,
            context,
            wrong_keys(name),
            lambda body: pack(samples.ALPHA.encode(), body),
        ),
        foreign={"wire": foreign, "inside": tuple(map(inside, foreign))},
        forge=astray,
    )


def notice_target() -> Target:
    """Notices for agent alpha."""
    seal = partial(seal_notice, sign=signer("notice"), recipient=ALPHA.public)
    flights = seal(samples.notice(domain="flights"))
    stale = seal_notice(
        samples.notice(),
        sign=partial(sign, roots.online("notice", 2)),
        recipient=ALPHA.public,
    )
    return sealed_target(
        "notice",
        contexts.NOTICE,
        lambda wire: judge_notice(wire, domain=DOMAIN, identity=IDENTITY, state=STATE),
        (seal(samples.notice()), seal(samples.notice_with_floors())),
        (flights, stale),
    )


def lease_target(nonce: str = samples.NONCE) -> Target:
    """The answer to agent alpha's open question."""
    seal = partial(seal_lease, sign=signer("lease"), recipient=ALPHA.public)
    book = LeaseBook.empty().ask(nonce, 100.0)

    def judge(wire: bytes) -> object:
        lease = open_lease(
            wire, key=ALPHA, audience=samples.ALPHA, lease_key=IDENTITY.anchors.lease
        )
        check_lease(lease, root=ROOT, wall=NOW)
        return book.answer(lease)

    stale = (
        seal(samples.lease(nonce="0" * 32)),
        seal(samples.lease(nonce=nonce, root=2)),
        seal(samples.lease(nonce=nonce, time=ROOT.expires + 1.0)),
        seal_lease(
            samples.lease(nonce=nonce),
            sign=partial(sign, roots.online("lease", 2)),
            recipient=ALPHA.public,
        ),
    )
    return sealed_target("lease", contexts.LEASE, judge, (seal(samples.lease(nonce=nonce)),), stale)


# -- what audiences say -------------------------------------------------------------------------

_SPEAKERS: Mapping[str, SigningKey] = {
    f"agent:{name}": samples.signing_key(name) for name in ("alpha", "beta")
}


def _heard(wire: bytes) -> object:
    request = decode_request(wire)
    speaker = _SPEAKERS.get(request.audience)
    if speaker is None:
        raise RejectedError("audience", "nobody of that name")
    check = verify_ack if request.kind == "ack" else verify_lease_request
    return check(request, speaker.public)


def request_target(name: str) -> Target:
    """Acknowledgements (`ack`) or lease requests (`lease`) as the control plane takes them."""
    alpha, beta = _SPEAKERS.values()
    acks = [
        sign_ack(samples.acknowledgement(**said), key).encode()
        for said, key in (
            ({}, alpha),
            ({"number": 8, "status": "rejected", "reason": "expired", "digest": "cd" * 32}, alpha),
            ({"what": "notice", "number": 3, "digest": ""}, alpha),
            ({"audience": "agent:beta"}, beta),
        )
    ]
    leases = [
        sign_lease_request(samples.lease_request(**said), key).encode()
        for said, key in (
            ({}, alpha),
            ({"nonce": "0" * 32, "reads": ("deltas",), "root": 2}, alpha),
            ({"audience": "agent:beta"}, beta),
        )
    ]
    mine, others = (acks, leases) if name == "ack" else (leases, acks)
    context = contexts.ACKNOWLEDGEMENT if name == "ack" else contexts.LEASE_REQUEST
    genuine = {*acks, *leases}
    wrong = tuple(key for key in wrong_keys("") if key.public not in {alpha.public, beta.public})
    return Target(
        name={"ack": "acknowledgement", "lease": "lease request"}[name],
        layers=(Layer("wire", tuple(mine), lambda data: data),),
        judge=_heard,
        refusals=REFUSED,
        signature=Signature("wire", 2, 3, context, wrong),
        foreign={"wire": tuple(others)},
        same=genuine.__contains__,
    )


# -- receipts, roots, enrolment -----------------------------------------------------------------


def receipt_target() -> Target:
    """Receipts of revocations, as they stand in a file."""
    made = [
        sign_receipt({**samples.receipt(), "revision": number}, signer("receipt"))
        for number in (8, 9)
    ]
    values = {_plain(each) for each in made}

    def judge(wire: bytes) -> object:
        try:
            document = json.loads(wire)
        except (ValueError, RecursionError) as error:
            raise DecodeError("no JSON") from error
        return verify_receipt(document, IDENTITY.anchors.receipt)

    def same(wire: bytes) -> bool:
        try:
            return _plain(json.loads(wire)) in values
        except (ValueError, RecursionError):
            return False

    def forge(dice: Dice) -> bytes:
        body = edit(json.loads(json.dumps(samples.receipt())), dice)
        try:
            return json.dumps(
                sign_receipt(body, partial(sign, dice.pick(wrong_keys("receipt"))))
            ).encode()
        except InputError:
            return b"{}"

    return Target(
        name="receipt",
        layers=(Layer("wire", tuple(map(_written, made)), lambda data: data),),
        judge=judge,
        refusals=REFUSED,
        forge=forge,
        same=same,
    )


def _written(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _plain(document: object) -> str:
    return json.dumps(document, sort_keys=True)


CHAIN = roots.chain(4)


def root_target() -> Target:
    """Roots that lead on from root 1."""
    genuine = [open_root(each) for each in CHAIN[1:]]
    return Target(
        name="root",
        layers=(
            Layer(
                "wire",
                (encode_roots(CHAIN[1:2]), encode_roots(CHAIN[1:3])),
                lambda data: data,
            ),
        ),
        judge=lambda wire: _new(follow(wire, current=ROOT, now=roots.ISSUED + 5.0)),
        refusals=REFUSED,
        foreign={"wire": (encode_roots(CHAIN[2:3]), encode_roots(CHAIN[:1]))},
        forge=_forged_roots,
        # Signatures of strangers may stand beside those that count.
        honest=genuine.__contains__,
    )


def _new(followed: Followed) -> Root:
    if not followed.roots:
        raise RejectedError("replay", "nothing new")
    return followed.root


def _forged_roots(dice: Dice) -> bytes:
    """A next root that too few of the right holders signed, with whoever else likes to."""
    mallory = roots.holder("mallory")
    made = roots.root(2, generation=2)
    kind = dice.below(4)
    if kind == 0:
        made = replace(made, policy=mallory.public)
    elif kind == 1:
        made = replace(made, holders=(roots.holder("ada").public, mallory.public), threshold=1)
    elif kind == 2:
        made = replace(made, threshold=1, reset=(DOMAIN,))
    names = [dice.pick(("mallory", "eve", "dot")) for _ in range(dice.below(4))]
    names += [dice.pick(("ada", "ben", "cyd"))] * dice.below(2)
    forged = roots.signed(made, names)
    if kind == 3:
        stolen = CHAIN[2].signatures
        forged = replace(forged, signatures=(*forged.signatures, *stolen)[:4])
    return encode_roots([forged] * (1 + dice.below(2)))


def request_of_roots_target() -> Target:
    """What the authority hands to the root ceremony."""
    made = make_request({role: roots.online(role) for role in ROLES}).rstrip(b"\n")
    return Target(
        name="root request",
        layers=(Layer("wire", (made,), lambda data: data),),
        judge=open_request,
        refusals=REFUSED,
        same=lambda wire: wire.rstrip(b"\n") == made,
    )


def enrolment_targets() -> tuple[Target, ...]:
    """What applicants sign: requests, questions and renewals."""
    alpha = samples.signing_key("alpha")
    records: tuple[tuple[Any, bytes], ...] = (
        (
            EnrolmentRequest(
                "agent", "alpha", samples.DIGEST, ALPHA.public, alpha.public, "request in PEM"
            ),
            contexts.ENROLMENT_REQUEST,
        ),
        (EnrolmentQuestion(samples.NONCE, b"a" * 32), contexts.ENROLMENT_QUESTION),
        (EnrolmentRenewal("agent", "alpha", "12ab", "PEM"), contexts.ENROLMENT_RENEWAL),
    )
    return tuple(_enrolment_target(record, context, alpha) for record, context in records)


def _enrolment_target(record: Any, context: bytes, key: SigningKey) -> Target:
    kind = type(record)

    def judge(wire: bytes) -> object:
        data, signature = unpack(wire, 2)
        if kind is EnrolmentRequest:
            return verify_enrolment_request(data, signature)
        return verify_enrolment(kind, data, signature, key.public)

    return Target(
        name={
            EnrolmentRequest: "enrolment request",
            EnrolmentQuestion: "enrolment question",
            EnrolmentRenewal: "enrolment renewal",
        }[kind],
        layers=(Layer("wire", (pack(*sign_enrolment(record, key)),), lambda data: data),),
        judge=judge,
        refusals=(*REFUSED, SignatureError, InputError),
        signature=Signature(
            "wire", 0, 1, context, tuple(k for k in wrong_keys("") if k.public != key.public)
        ),
    )


def targets() -> tuple[Target, ...]:
    """Every kind of message, with judges that have seen nothing yet."""
    return (
        *bundle_targets(),
        notice_target(),
        lease_target(),
        request_target("ack"),
        request_target("lease"),
        receipt_target(),
        root_target(),
        request_of_roots_target(),
        *enrolment_targets(),
    )
