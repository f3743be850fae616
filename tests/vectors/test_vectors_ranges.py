"""Order-preserving attributes on their way, byte by byte as they were."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import pytest

from policyengine import bundles
from policyengine.errors import DecodeError
from policyengine.ope import (
    ComparatorKey,
    KeyringComparator,
    RangeFilter,
    RangeIndex,
    RangeKey,
    RangeValues,
)
from tests.vectors import generate_ranges

FOUND: dict[str, Any] = json.loads(generate_ranges.VECTORS.read_text())


def packed(*fields: bytes) -> bytes:
    """The engine's packing, written anew."""
    return b"".join(len(one).to_bytes(4, "big") + one for one in fields)


def short(data: bytes, digits: int) -> str:
    return blake2b(data, digest_size=digits // 2).hexdigest()


@pytest.mark.parametrize("vector", FOUND["schemes"], ids=["sbm1", "sbm2"])
def test_slots_columns_and_keys_are_what_they_were(vector: dict[str, Any]) -> None:
    for one in vector["keys"]:
        domain, kind, attribute, epoch = one["slot"]
        slot = packed(domain.encode(), kind.encode(), attribute.encode(), epoch.to_bytes(8, "big"))
        form = json.dumps(
            one["type"], sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
        assert one["name"] == short(slot, 32)
        assert one["column"] == "c" + one["name"] + short(form, 16)
        client = bytes.fromhex(one["client"])
        key = RangeKey.from_bytes(client)
        magic = b"portcullis/order-key/v1"
        assert client == packed(magic, slot, vector["scheme"].encode(), key.secret)
        if one["comparator"]:
            held = ComparatorKey.from_bytes(bytes.fromhex(one["comparator"]))
            assert held == key.comparator_key()
            assert held.secret != key.secret


@pytest.mark.parametrize("vector", FOUND["schemes"], ids=["sbm1", "sbm2"])
def test_values_meet_filters_that_were_made_then(vector: dict[str, Any]) -> None:
    values = RangeValues.from_bytes(bytes.fromhex(vector["values"]))
    wanted = RangeFilter.from_bytes(bytes.fromhex(vector["filter"]))
    assert values.to_bytes().hex() == vector["values"]
    assert wanted.to_bytes().hex() == vector["filter"]
    columns = {one["column"] for one in vector["keys"]}
    assert {name.rstrip("^$") for name in values.columns} == columns
    opens = [
        ComparatorKey.from_bytes(bytes.fromhex(one["comparator"]))
        for one in vector["keys"]
        if one["comparator"]
    ]
    index = RangeIndex(KeyringComparator(opens) if opens else None)
    index.replace({"mine": wanted})
    assert index.match(values) == {"mine"}


def test_the_generator_still_writes_the_same() -> None:
    made = [generate_ranges.scheme_vector(scheme) for scheme in ("sbm1", "sbm2")]
    assert made == FOUND["schemes"]
    assert generate_ranges.records() == FOUND["records"]


@pytest.mark.parametrize("entry", FOUND["records"])
def test_records_read_as_they_were_with_and_without_the_new_members(entry: dict[str, Any]) -> None:
    record: Any = getattr(bundles, entry["record"])
    assert record.from_json(entry["body"]).to_json() == entry["body"]
    with pytest.raises(DecodeError):
        record.from_json({**entry["body"], "another": 1})
