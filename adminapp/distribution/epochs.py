"""Encoding epochs of a domain: their parameters, their keys, and the steps they go through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max

from adminapp.core.authority import get_authority
from adminapp.distribution.models import EncodingEpoch, EncodingKey
from adminapp.identity.models import Domain
from policyengine.anonset.parameters import Parameters, length_for, size_for
from policyengine.attributes import token_attribute

State = EncodingEpoch.State

# INVARIANT: every conjunction of an epoch is padded to one n of this ladder, so the size of an
# encoding says nothing about the conjunction (paper 000, corrected: pad to a fixed n).
LADDER = (8, 16, 32, 64)
LIVE = (State.STAGED, State.CURRENT, State.DRAINING)


@dataclass(frozen=True)
class Blinding:
    """What one agent's encodings in one epoch are made under.

    Args:
        key: the key, in the clear.
        generation: how often the agent was given another key in this epoch.
        aliases: how often which attribute was given another alias since then.
    """

    key: bytes
    generation: int = 0
    aliases: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Blinding(generation={self.generation}, aliases={dict(self.aliases)}, key=...)"

    @property
    def mark(self) -> str:
        """Tells encodings under one key from those under another."""
        return f"key-{self.generation}" if self.generation else ""

    def disguised(self, tokens: Iterable[str]) -> tuple[str, ...]:
        """Tokens as they are encoded: those of a re-blinded attribute have other aliases.

        An alias is a pseudo-random function of what stands here (paper 000, Algorithm 1), so
        another text is another alias, and nobody without the key can link the two.
        """
        if not self.aliases:
            return tuple(tokens)
        return tuple(self._disguised(token) for token in tokens)

    def _disguised(self, token: str) -> str:
        count = self.aliases.get(token_attribute(token), 0)
        return f"{count}|{token}" if count else token


def rung_for(tokens: int, blind_probability: float = 0.5) -> int:
    """The least n of the ladder with room for a conjunction of `tokens` and its blinding."""
    needed = length_for(tokens, blind_probability)
    return next((n for n in LADDER if needed <= n), LADDER[-1])


def capacity(parameters: Parameters) -> int:
    """How many tokens a conjunction may have under these parameters."""
    return parameters.n // length_for(1, parameters.blind_probability)


def most_tokens(domain: Domain) -> int:
    """How many tokens a conjunction of the domain may ever have."""
    return LADDER[-1] // length_for(1, _blinding(domain))


def parameters_of(epoch: EncodingEpoch) -> Parameters:
    """The parameters that every encoding of the epoch has."""
    return Parameters.from_json(epoch.parameters)


def outgrown(epoch: EncodingEpoch, domain: Domain, tokens: int) -> bool:
    """Whether the domain no longer fits: a longer conjunction, or another encoding chosen."""
    held = parameters_of(epoch)
    return held.encoding != domain.encoding or (tokens > capacity(held) and held.n < LADDER[-1])


def live(domain: Domain) -> list[EncodingEpoch]:
    """Epochs that agents hold, oldest first: at most two."""
    return list(EncodingEpoch.objects.filter(domain=domain, state__in=LIVE).order_by("number"))


def current(domain: Domain) -> EncodingEpoch | None:
    """The epoch that new events are matched in, or None before the first compile."""
    return EncodingEpoch.objects.filter(domain=domain, state=State.CURRENT).first()


def open_first(domain: Domain, tokens: int) -> EncodingEpoch:
    """The domain's first epoch, current from the start since nothing came before it."""
    epoch, _ = EncodingEpoch.objects.get_or_create(
        domain=domain,
        number=1,
        defaults={
            "state": State.CURRENT,
            "client_state": State.CURRENT,
            "cause": "initial",
            "parameters": _sized(domain, tokens),
        },
    )
    return epoch


def open_next(domain: Domain, tokens: int, cause: str) -> EncodingEpoch:
    """A new epoch in preparation, never smaller than the one before; call inside a change."""
    before = current(domain)
    least = capacity(parameters_of(before)) if before else 0
    number = _last_number(domain) + 1
    return EncodingEpoch.objects.create(
        domain=domain,
        number=number,
        cause=cause,
        parameters=_sized(domain, max(tokens, least)),
    )


def ensure_keys(epoch: EncodingEpoch, agents: Iterable[str], overlays: Iterable[str]) -> None:
    """Have the authority make the keys that the epoch lacks, one an agent and one an overlay."""
    wanted = {f"agent:{name}" for name in agents} | {f"overlay:{name}" for name in overlays}
    missing = wanted - set(epoch.keys.values_list("scope", flat=True))
    for scope in sorted(missing):
        wrapped = get_authority().create_key(key_id(epoch, scope))
        # Two compilers may meet here: the first row stays, both go on with that one.
        EncodingKey.objects.get_or_create(epoch=epoch, scope=scope, defaults={"wrapped": wrapped})


def blinding(epoch: EncodingEpoch, agent: str) -> Blinding:
    """What encodes for one agent in this epoch."""
    row = EncodingKey.objects.get(epoch=epoch, scope=f"agent:{agent}")
    return Blinding(_opened(epoch, row.scope, row.wrapped), row.generation, row.aliases)


def staged_blinding(epoch: EncodingEpoch, agent: str, staged: Mapping[str, Any]) -> Blinding:
    """What a run encodes for one agent under, before it comes into force."""
    key = _opened(epoch, f"agent:{agent}", staged["wrapped"])
    return Blinding(key, staged["generation"], staged["aliases"])


def tag_key(epoch: EncodingEpoch, overlay: str) -> bytes:
    """The key that publishers tag event values with, on one overlay, in this epoch."""
    return _key(epoch, f"overlay:{overlay}")


def key_id(epoch: EncodingEpoch, scope: str) -> str:
    """The name under which the authority made a key; the wrapped key opens under no other."""
    kind, name = scope.split(":", 1)
    prefix = {"agent": "encoding", "overlay": "tag"}[kind]
    return f"{prefix}:{epoch.domain.name}:{name}:{epoch.number}"


def destroy(epoch: EncodingEpoch) -> int:
    """Forget a retired epoch's keys and encodings; returns how many encodings went."""
    count, _ = epoch.items.all().delete()
    epoch.keys.all().delete()
    return count


def _key(epoch: EncodingEpoch, scope: str) -> bytes:
    return _opened(epoch, scope, EncodingKey.objects.get(epoch=epoch, scope=scope).wrapped)


def _opened(epoch: EncodingEpoch, scope: str, wrapped: str) -> bytes:
    return get_authority().unwrap(key_id(epoch, scope), wrapped)


def _sized(domain: Domain, tokens: int) -> dict[str, object]:
    blinding = _blinding(domain)
    sized = size_for(
        rung_for(tokens, blinding), encoding=domain.encoding, blind_probability=blinding
    )
    return dict(sized.to_json())


def _blinding(domain: Domain) -> float:
    # Sorted tokens are padded at random; only filters need the second element of Algorithm 1.
    return 0.0 if domain.encoding == Domain.Encoding.TOKENS else 0.5


def _last_number(domain: Domain) -> int:
    found = EncodingEpoch.objects.filter(domain=domain).aggregate(top=Max("number"))
    return found["top"] or 0
