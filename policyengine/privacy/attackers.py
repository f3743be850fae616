"""The two attackers on a split: one broker, and brokers of several overlays that collude.

Paper 004, sections 2.2 and 5. Brokers are honest but curious; the attackers here hold the
parts as they travel and no key. Colluding overlays are taken to know which parts belong to
one publication, as the timing tells them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from policyengine.attributes import Value, shown
from policyengine.errors import InputError
from policyengine.privacy.parts import Part, check_numbers
from policyengine.privacy.plan import SplitPlan
from policyengine.privacy.risky import check_risky


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What some overlays know together of one publication.

    Args:
        overlays: their numbers, sorted.
        known: attribute -> value, in clear and told to belong together; sorted by name.
        ciphertexts: attribute -> ciphertext; all that they see of these.
    """

    overlays: tuple[int, ...]
    known: dict[str, Value]
    ciphertexts: dict[str, bytes]


def standalone(parts: Sequence[Part], overlay: int) -> Knowledge:
    """Play attacker (I): a broker of one overlay.

    Args:
        parts: all parts of a publication, in order.
        overlay: its overlay.

    Raises:
        InputError: `invalid` for an overlay that the publication does not use, or parts
            that are not all the parts of one publication.
    """
    return colluding(parts, (overlay,))


def colluding(parts: Sequence[Part], overlays: Collection[int]) -> Knowledge:
    """Play attacker (II): brokers of several overlays that put together what they see.

    Args:
        parts: all parts of a publication, in order.
        overlays: their overlays; repeats change nothing.

    Raises:
        InputError: as `standalone`.
    """
    told = {(part.publication, part.plan, part.parts) for part in parts}
    if len(told) != 1 or [part.part for part in parts] != list(range(parts[0].parts)):
        raise InputError("invalid", "expected all parts of one publication", where="parts")
    check_numbers(overlays, len(parts), "colluding")
    together = tuple(sorted(set(overlays)))
    known = {name: value for number in together for name, value in parts[number].clear.items()}
    unread = {name: data for number in together for name, data in parts[number].encrypted.items()}
    return Knowledge(together, dict(sorted(known.items())), dict(sorted(unread.items())))


def coalitions(parts: Sequence[Part], size: int) -> Iterator[Knowledge]:
    """Play attacker (II) with every set of `size` overlays, one after the other.

    Args:
        parts: all parts of a publication, in order.
        size: how many collude; where there are fewer overlays, all of them do.

    Raises:
        InputError: as `standalone`; `invalid` for a size below 1.
    """
    if size < 1:
        raise InputError("invalid", "at least one overlay attacks", where="size")
    for overlays in combinations(range(len(parts)), min(size, len(parts))):
        yield colluding(parts, overlays)


def exposed(knowledge: Knowledge, risky: Iterable[Collection[str]]) -> tuple[frozenset[str], ...]:
    """Return the risky sets of which the attackers know every attribute in clear."""
    return tuple(frozenset(one) for one in risky if set(one) <= set(knowledge.known))


@dataclass(frozen=True, slots=True)
class Violation:
    """A risky set that a plan does not protect.

    Args:
        risky: the attributes.
        overlays: the few overlays that see all of them in clear.
    """

    risky: frozenset[str]
    overlays: tuple[int, ...]

    def __str__(self) -> str:
        """Say it in a sentence."""
        names = ", ".join(shown(name) for name in sorted(self.risky))
        seen = " and ".join(str(number) for number in self.overlays)
        plural = "overlays" if len(self.overlays) > 1 else "overlay"
        return f"{plural} {seen} can see {names} together"


def violations(
    plan: SplitPlan, risky: Iterable[Collection[str]], colluding: int
) -> tuple[Violation, ...]:
    """Check a plan, whoever made it.

    A set is safe when one of its attributes is encrypted, or when they are spread over more
    overlays than collude.

    Args:
        plan: the plan.
        risky: sets of attributes that nobody may see together.
        colluding: how many overlays may put together what they see; 0 asks for nothing.

    Returns:
        What it does not protect, in the order of `risky`; nothing for a good plan.

    Raises:
        InputError: `unknown` for an attribute that the plan does not place; `invalid` for
            an empty set or `colluding` below 0.
    """
    sets = check_risky(risky, plan.attributes, colluding)
    found: list[Violation] = []
    for one in sets:
        touched = tuple(
            number for number, group in enumerate(plan.overlays) if not one.isdisjoint(group)
        )
        if one.isdisjoint(plan.encrypted) and len(touched) <= colluding:
            found.append(Violation(one, touched))
    return tuple(found)
