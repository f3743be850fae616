"""Policies on payloads: the product's FAME beside Charm's AC17, BSW07 and Waters11 (paper 001).

All four run on the same group. The policy is an AND of so many attributes, the dearest kind to
open; Charm's schemes carry an element of GT, the product a key of 32 bytes and a check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.memory import run
from benchmarks.tables import human, seconds, table, times
from policyengine.abe import cp_wire, cpabe, fame
from policyengine.abe.charm_group import GT, charm_group
from policyengine.abe.charm_policy import TreePrograms, element_name
from policyengine.attributes import AttributeType, Gate, Leaf, Schema, Value, elements_of
from policyengine.attributes.universe import Node
from policyengine.primitives import SYSTEM_RANDOM

SCHEMES = ("product", "ac17", "bsw07", "waters11")
Work = Callable[[], Any]


def policy_of(count: int) -> tuple[Node, dict[str, Value], Schema]:
    """Give a policy that asks for every attribute, and a subject who has them."""
    schema: Schema = {f"attribute{number}": AttributeType("bool") for number in range(count)}
    values: dict[str, Value] = dict.fromkeys(schema, True)
    asked = [
        Leaf(element) for element in elements_of(values, schema) if element.label.endswith("==")
    ]
    return Gate(count, tuple(asked)), values, schema


def product(count: int) -> tuple[Work, Work, Work]:
    """Give key generation, encryption and decryption of the product, bytes included."""
    tree, values, schema = policy_of(count)
    master = cpabe.setup(uses=1)
    public, key = cpabe.public_key(master), cpabe.keygen(master, values, schema)
    secret, made = cpabe.encapsulate(public, tree)
    data = cp_wire.encode_cp_ciphertext(made)

    def encrypt() -> bytes:
        return cp_wire.encode_cp_ciphertext(cpabe.encapsulate(public, tree)[1])

    def decrypt() -> bytes:
        return cpabe.decapsulate(key, cp_wire.decode_cp_ciphertext(data))

    if decrypt() != secret:
        raise AssertionError("the product does not open its own ciphertext")
    return lambda: cpabe.keygen(master, values, schema), encrypt, decrypt


def ac17(count: int) -> tuple[Work, Work, Work]:
    """Give the same of Charm's AC17, as it stands, on the product's trees."""
    tree, _, _ = policy_of(count)
    scheme = fame.charm_scheme(SYSTEM_RANDOM)
    names = [element_name(leaf.element, 0) for leaf in _leaves(tree)]
    return _charm(scheme, names, tree, key_last=True)


def bsw07(count: int) -> tuple[Work, Work, Work]:
    """Give the same of Charm's BSW07; its policy is a text in Charm's language."""
    group = charm_group()
    from charm.schemes.abenc.abenc_bsw07 import CPabe_BSW07

    names = [f"ATTRIBUTE{number}" for number in range(count)]
    text = names[0]
    for name in names[1:]:
        text = f"({text} and {name})"
    return _charm(CPabe_BSW07(group), names, text, key_last=False)


def waters11(count: int) -> tuple[Work, Work, Work]:
    """Give the same of Charm's Waters11, whose attributes are numbers."""
    tree, _, _ = policy_of(count)
    group = charm_group()
    from charm.schemes.abenc.waters11 import Waters11

    scheme = Waters11(group, count)
    numbers = {leaf.element: str(place) for place, leaf in enumerate(_leaves(tree), 1)}
    scheme.util = TreePrograms(group, lambda element, use: numbers[element])
    return _charm(scheme, list(numbers.values()), tree, key_last=True)


def _leaves(tree: Node) -> list[Leaf]:
    terms = tree.terms if isinstance(tree, Gate) else (tree,)
    return [term for term in terms if isinstance(term, Leaf)]


def _charm(
    scheme: Any, names: list[str], policy: object, *, key_last: bool
) -> tuple[Work, Work, Work]:
    public, master = scheme.setup()
    key = scheme.keygen(public, master, names)
    message = charm_group().random(GT)
    made = scheme.encrypt(public, message, policy)

    def decrypt() -> object:
        return scheme.decrypt(public, *((made, key) if key_last else (key, made)))

    if decrypt() != message:
        raise AssertionError("a scheme does not open its own ciphertext")
    return (
        lambda: scheme.keygen(public, master, names),
        lambda: scheme.encrypt(public, message, policy),
        decrypt,
    )


MAKERS = dict(zip(SCHEMES, (product, ac17, bsw07, waters11), strict=True))


def speed(counts: Sequence[int], repeat: int) -> None:
    """Time all four with policies of so many attributes."""
    for count in counts:
        rows = []
        base: list[float] = []
        for name in SCHEMES[::-1]:
            taken = [seconds(work, repeat=repeat) for work in MAKERS[name](count)]
            base = base or taken
            ratios = [times(theirs / ours) for theirs, ours in zip(base, taken, strict=True)]
            rows.append([name, *(human(one) for one in taken), *ratios[1:]])
        table(
            f"{count} attributes; ratios against {SCHEMES[-1]}",
            ["", "key", "encrypt", "decrypt", "encrypt", "decrypt"],
            rows,
        )


def memory(count: int) -> None:
    """Measure a process of its own for each scheme, and count the product's bytes."""
    rows = []
    for name in SCHEMES:
        command = [sys.executable, "-m", "benchmarks.bench_cpabe", "--only", name]
        finished = run([*command, "--attributes", str(count)], folder=Path.cwd())
        rows.append([name, f"{finished.peak / 2**20:.0f} MiB"])
    table(f"greatest memory of a process, {count} attributes", ["", "memory"], rows)
    tree, values, schema = policy_of(count)
    master = cpabe.setup(uses=1)
    sizes = [
        ("public key", cp_wire.encode_cp_public(cpabe.public_key(master))),
        ("subject's key", cp_wire.encode_cp_user(cpabe.keygen(master, values, schema))),
        (
            "ciphertext",
            cp_wire.encode_cp_ciphertext(cpabe.encapsulate(cpabe.public_key(master), tree)[1]),
        ),
    ]
    table(
        f"bytes of the product, {count} attributes",
        ["", "bytes"],
        [[name, f"{len(data):,}"] for name, data in sizes],
    )


def alone(name: str, count: int) -> None:
    """Encrypt and decrypt for a while with one scheme, so that its memory can be watched."""
    _, encrypt, decrypt = MAKERS[name](count)
    for _ in range(20):
        encrypt()
        decrypt()


def main(argv: Sequence[str]) -> None:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_cpabe")
    parser.add_argument("--attributes", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--only", choices=SCHEMES, help="one scheme, without a table")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args(argv)
    if options.only:
        alone(options.only, options.attributes[-1])
        return
    speed(options.attributes, 3 if options.quick else 15)
    memory(options.attributes[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
