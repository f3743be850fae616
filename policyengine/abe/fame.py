"""FAME (Charm's AC17) as a key encapsulation over access trees.

Set-up and keys are made by Charm's own `AC17CPABE`; encapsulation is the same equations,
with the sums over a row's few entries only, and opening has coefficients, which threshold
gates need. What Charm encrypts and what is encapsulated here open each other.

The element of GT that Charm's ciphertext ends with is left out: the mask that would hide a
message is the secret.

Source: Agrawal and Chase, FAME: fast attribute-based message encryption (2017), section 3;
fully secure under the decisional linear assumption, with random oracles, as long as no
attribute stands in two rows (see `charm_policy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from policyengine.abe.charm_group import charm_group, point_of_text
from policyengine.abe.charm_policy import SparseRow, TreePrograms
from policyengine.abe.group import (
    G1,
    G2,
    GT,
    gt_power,
    pair_product,
    power,
    random_scalar,
)
from policyengine.primitives.rand import RandomSource

ASSUMPTION: Final = 2
"""Size of the linear assumption; Charm calls it `assump_size`."""
WIDTH: Final = ASSUMPTION + 1
"""How many points a row, a head and each part of a key have."""


def charm_scheme(random: RandomSource) -> Any:
    """Return Charm's AC17 on BLS12-381, with trees for policies.

    Args:
        random: source of what it draws.
    """
    group = charm_group(random)
    from charm.schemes.abenc.ac17 import AC17CPABE

    scheme = AC17CPABE(group, ASSUMPTION)
    scheme.util = TreePrograms(group)
    return scheme


def encapsulate_points(
    head: Sequence[G2],
    masks: Sequence[GT],
    names: Sequence[str],
    rows: Sequence[SparseRow],
    random: RandomSource,
) -> tuple[GT, list[G2], list[list[G1]]]:
    """Make a mask that the keys of a span program recover.

    Args:
        head: `h_A` of the public key.
        masks: `e_gh_kA` of the public key.
        names: one a row, all different.
        rows: the program.
        random: source of the mask.

    Returns:
        The mask; `C_0`; for each row `C`.
    """
    s = [random_scalar(random) for _ in range(ASSUMPTION)]
    c_0 = [power(point, scalar) for point, scalar in zip(head, [*s, sum(s)], strict=True)]
    columns: dict[int, list[G1]] = {}  # of threshold gates: what a column hides, once
    points = []
    for name, row in zip(names, rows, strict=True):
        signs = {column: entry for column, entry in row.items() if entry in (1, -1)}
        sums = _hidden(name, signs, s)
        for column in row.keys() - signs.keys():
            if column not in columns:
                columns[column] = _hidden(_column(column), {}, s)
            for place in range(WIDTH):
                sums[place] = sums[place] + power(columns[column][place], row[column])
        points.append(sums)
    mask = GT()
    for element, scalar in zip(masks, s, strict=True):
        mask = mask * gt_power(element, scalar)
    return mask, c_0, points


def recover(
    k_0: Sequence[G2],
    kp: Sequence[G1],
    c_0: Sequence[G2],
    chosen: Sequence[tuple[int, Sequence[G1], Sequence[G1]]],
) -> GT:
    """Recover the mask with six pairings.

    Args:
        k_0: `K_0` of the key.
        kp: `Kp` of the key.
        c_0: from `encapsulate_points`.
        chosen: rows that satisfy the program: coefficient, `K` of the key, `C`.
    """
    pairs = []
    for place in range(WIDTH):
        of_key, of_row = kp[place], G1()
        for weight, key, row in chosen:
            of_key = of_key + power(key[place], weight)
            of_row = of_row - power(row[place], weight)
        pairs += [(of_key, c_0[place]), (of_row, k_0[place])]
    return pair_product(pairs)


def _hidden(name: str, signs: Mapping[int, int], s: Sequence[int]) -> list[G1]:
    """Return, for each l, the sum over t of s_t (H(name l t) + the sum of signed columns)."""
    found = []
    for place in range(WIDTH):
        total = G1()
        for number, scalar in enumerate(s):
            point = point_of_text(f"{name}{place}{number}")
            for column, sign in signs.items():
                hashed = point_of_text(f"{_column(column)}{place}{number}")
                point = point + hashed if sign == 1 else point - hashed
            total = total + power(point, scalar)
        found.append(total)
    return found


def _column(number: int) -> str:
    """Return Charm's name of a column."""
    return f"0{number + 1}"
