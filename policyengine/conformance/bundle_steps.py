"""`bundle.apply`: bundles built, signed, sealed, damaged on the way, and applied.

An agent refuses for the first of these reasons that is true:

1. `malformed`: the envelope cannot be read;
2. `audience`: the address in clear is someone else's;
3. `malformed`: it does not open;
4. `signature`: it is not the authority's;
5. `replay`, `rollback`, `expired`, `previous`, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from policyengine.attributes import shown
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    SealedBundle,
    Sign,
    TrustedState,
    build_bundle,
    open_bundle,
)
from policyengine.conformance.fields import Fields, random_of
from policyengine.errors import InputError, RejectedError
from policyengine.primitives import RandomSource, SealingKey, SigningKey, sign

_DOMAIN: Final = "conformance"
_OVERLAY: Final = "overlay"
_KEY: Final = 32
_LAST: Final = 2**63 - 1
_MUTATIONS: Final = ("strip_signature", "foreign_key", "truncate")

_Mutation: TypeAlias = str | int | None
"""One of `_MUTATIONS`, the number of a bit to flip, or nothing."""


@dataclass(frozen=True, slots=True)
class _Step:
    at: float
    agent: str
    revision: int
    expires: int
    follows: bool
    mutation: _Mutation


def answer_apply(fields: Fields) -> dict[str, object]:
    """Send one bundle after the other to an agent and report what came of each."""
    agent = fields.text("agent")
    steps = [_step(value, f"steps[{at}]") for at, value in enumerate(fields.items("steps"))]
    site = _Site(agent, random_of(fields))
    return {"steps": [site.play(step) for step in steps]}


class _Site:
    """An authority and the agent whose state is watched."""

    def __init__(self, agent: str, random: RandomSource) -> None:
        self._random = random
        self._audience = f"agent:{agent}"
        self._authority = SigningKey(random.token(_KEY))
        self._keys: dict[str, SealingKey] = {}
        self._key = self._key_of(agent)
        self._state = TrustedState(self._audience)

    def play(self, step: _Step) -> dict[str, object]:
        """Build what the step says, damage it, and let the agent decide."""
        message = _mutated(self._built(step).message, step.mutation)
        try:
            self._apply(message, step.at)
        except RejectedError as error:
            return {"accepted": False, "reason": error.reason, "revision": self._revision()}
        return {"accepted": True, "reason": None, "revision": self._revision()}

    def _apply(self, message: bytes, now: float) -> None:
        opened = open_bundle(
            message,
            key=self._key,
            audience=self._audience,
            domain=_DOMAIN,
            policy_key=self._authority.public,
        )
        self._state.check(opened.header, opened.digest, now)
        self._state = self._state.applied(opened.header, opened.digest)

    def _built(self, step: _Step) -> SealedBundle:
        key = self._key_of(step.agent)
        return build_bundle(
            domain=_DOMAIN,
            audience=f"agent:{step.agent}",
            revision=step.revision,
            previous=self._previous(follows=step.follows),
            issued=min(max(0, int(step.at)), _LAST),
            expires=step.expires,
            root_version=1,
            content=_content(step.agent, key),
            sign=self._signer(step.mutation),
            recipient=key.public,
        )

    def _previous(self, *, follows: bool) -> str:
        if not follows:
            return self._random.token(_KEY).hex()
        held = self._state.revisions.get(_DOMAIN)
        return "" if held is None else held.digest

    def _signer(self, mutation: _Mutation) -> Sign:
        if mutation == "strip_signature":
            return _unsigned
        if mutation == "foreign_key":
            return partial(sign, SigningKey(self._random.token(_KEY)))
        return partial(sign, self._authority)

    def _revision(self) -> int:
        held = self._state.revisions.get(_DOMAIN)
        return 0 if held is None else held.revision

    def _key_of(self, agent: str) -> SealingKey:
        if agent not in self._keys:
            self._keys[agent] = SealingKey(self._random.token(_KEY))
        return self._keys[agent]


def _unsigned(_context: bytes, _payload: bytes) -> bytes:
    return b""


def _content(agent: str, key: SealingKey) -> AgentContent:
    # INVARIANT: nothing in it depends on the revision; what is tested is the envelope
    return AgentContent(
        domain=_DOMAIN,
        agent=agent,
        overlay=_OVERLAY,
        lease_seconds=30,
        types=(),
        agents=(AgentRef(agent, _OVERLAY, key.public, key.public),),
        clients=(),
        epochs=(),
        wraps=(),
        notices_through=0,
    )


def _mutated(message: bytes, mutation: _Mutation) -> bytes:
    if isinstance(mutation, int):
        bit = mutation % (8 * len(message))
        damaged = bytearray(message)
        damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)
    return message[: len(message) // 2] if mutation == "truncate" else message


def _step(value: object, where: str) -> _Step:
    step = _fields(value, ("at", "bundle"), ("mutate",), where)
    bundle = _fields(
        step.raw("bundle"), ("agent", "revision", "expires", "previous"), (), f"{where}.bundle"
    )
    return _Step(
        at=step.number("at"),
        agent=bundle.text("agent"),
        revision=bundle.integer("revision", 1, _LAST),
        expires=bundle.integer("expires", 0, _LAST),
        follows=bundle.word("previous", ("right", "wrong")) == "right",
        mutation=_mutation(step.raw("mutate"), f"{where}.mutate"),
    )


def _fields(
    value: object, required: tuple[str, ...], optional: tuple[str, ...], where: str
) -> Fields:
    if not isinstance(value, dict):
        raise InputError("type", f"the field `{where}` is no object", where=where)
    return Fields(value, required, optional, where=f"{where}.")


def _mutation(value: object, where: str) -> _Mutation:
    if isinstance(value, dict):
        return Fields(value, ("flip_bit",), where=f"{where}.").integer("flip_bit")
    if value is None or (isinstance(value, str) and value in _MUTATIONS):
        return value
    raise InputError(
        "unknown" if isinstance(value, str) else "type",
        f"the field `{where}` is {shown(value)}; expected null, an object with `flip_bit`, "
        + ", ".join(f"`{word}`" for word in _MUTATIONS),
        where=where,
    )
