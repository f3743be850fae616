"""The golden vectors: the engine, the file and an independent reading agree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policyengine.anonset import Encoder, Parameters, SubjectMatrix, match, tag
from policyengine.primitives.rand import SeededRandom
from tests.vectors import verify_anonset as independent
from tests.vectors.generate_anonset import VECTORS, document

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text())
ENCODINGS = DOCUMENT["encodings"]


def test_the_file_is_what_the_generator_writes() -> None:
    assert document() == DOCUMENT


@pytest.mark.parametrize("case", ENCODINGS)
def test_the_engine_makes_the_vectors(case: dict[str, Any]) -> None:
    parameters = Parameters.from_json(case["parameters"])
    seed = SeededRandom(bytes.fromhex(case["seed"]))
    encoder = Encoder(bytes.fromhex(case["key"]), parameters, random=seed)
    for subject in case["subjects"]:
        assert encoder.encode_subject(subject["tokens"]).hex() == subject["encoded"]
    for policy in case["policies"]:
        assert encoder.encode_policy(policy["tokens"]).hex() == policy["encoded"]


@pytest.mark.parametrize("case", ENCODINGS)
def test_an_independent_reading_makes_the_same_bytes(case: dict[str, Any]) -> None:
    reader = independent.Reader(bytes.fromhex(case["key"]), case["parameters"])
    stream = independent.Stream(bytes.fromhex(case["seed"]))
    assert len(case["subjects"]) >= 2
    for subject in case["subjects"]:
        assert reader.subject(subject["tokens"], stream).hex() == subject["encoded"]
    for policy in case["policies"]:
        assert reader.policy(policy["tokens"], stream).hex() == policy["encoded"]


@pytest.mark.parametrize("case", ENCODINGS)
def test_matches_are_the_vectors_word_by_word(case: dict[str, Any]) -> None:
    parameters = Parameters.from_json(case["parameters"])
    reader = independent.Reader(bytes.fromhex(case["key"]), case["parameters"])
    subjects = [bytes.fromhex(subject["encoded"]) for subject in case["subjects"]]
    matrix = SubjectMatrix(subjects, parameters)
    for column, entry in enumerate(case["policies"]):
        policy = bytes.fromhex(entry["encoded"])
        wanted = [row[column] for row in case["matches"]]
        assert list(matrix.authorised(policy)) == [one["granted"] for one in wanted]
        for subject, one in zip(subjects, wanted, strict=True):
            granted, indices = reader.match(policy, subject)
            assert {"granted": granted, "indices": indices} == one
            found = match(policy, subject, parameters)
            assert (found.granted, list(found.indices)) == (granted, indices)


def test_the_vectors_say_what_plain_sets_say() -> None:
    for case in ENCODINGS:
        for subject, row in zip(case["subjects"], case["matches"], strict=True):
            for policy, one in zip(case["policies"], row, strict=True):
                assert one["granted"] == (set(policy["tokens"]) <= set(subject["tokens"]))


@pytest.mark.parametrize("case", DOCUMENT["tags"])
def test_tags(case: dict[str, str]) -> None:
    key = bytes.fromhex(case["key"])
    assert tag(key, case["token"]).hex() == case["tag"]
    assert independent.tag(key, case["token"]).hex() == case["tag"]
