"""The same answers under eight threads, and other secrets in each forked process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from policyengine.anonset import Encoder, SubjectMatrix, match, size_for
from policyengine.attributes import evaluate, normalise, parse, schema_from_json
from policyengine.primitives import (
    SYSTEM_RANDOM,
    generate_sealing_key,
    open_sealed,
    seal_to,
)
from policyengine.primitives.aead import open_, seal
from tests.support.forks import forked

SCHEMA = schema_from_json(
    {"zone": {"type": "string"}, "level": {"type": "int", "min": 0, "max": 99}}
)
THREADS = 8


def together(work: Callable[[int], object], count: int) -> list[object]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(count)))


def test_the_language_answers_the_same_under_threads() -> None:
    def work(number: int) -> object:
        expression = parse(f'zone == "z{number % 7}" && !(level > {number % 50})', SCHEMA)
        values = [{"zone": f"z{zone}", "level": zone * 9} for zone in range(7)]
        return normalise(expression, SCHEMA), [evaluate(expression, one) for one in values]

    assert together(work, 400) == [work(number) for number in range(400)]


def test_one_encoder_and_one_matrix_serve_many_threads() -> None:
    parameters = size_for(8)
    encoder = Encoder(b"k" * 32, parameters, random=SYSTEM_RANDOM)

    def held(number: int) -> list[str]:
        return [f"attribute{place}=={number % (place + 5)}" for place in range(4)]

    subjects = [bytes(one) for one in together(lambda n: encoder.encode_subject(held(n)), 400)]
    matrix = SubjectMatrix(subjects, parameters)

    def work(number: int) -> object:
        wanted = held(number)[: 1 + number % 3]
        policy = encoder.encode_policy(wanted)
        expected = [set(wanted) <= set(held(other)) for other in range(400)]
        singly = [match(policy, subjects[other], parameters).granted for other in range(50)]
        return matrix.authorised(policy).tolist() == expected and singly == expected[:50]

    assert all(together(work, 60))


def test_sealing_works_from_many_threads() -> None:
    key, secret = generate_sealing_key(), SYSTEM_RANDOM.token(32)

    def work(number: int) -> object:
        text = str(number).encode()
        sealed = seal_to(key.public, text, info=b"threads")
        wrapped = seal(secret, sealed, aad=text, random=SYSTEM_RANDOM)
        return open_sealed(key, open_(secret, wrapped, aad=text), info=b"threads")

    assert together(work, 200) == [str(number).encode() for number in range(200)]


def test_forked_processes_draw_other_secrets() -> None:
    parameters = size_for(4)
    encoder = Encoder(b"k" * 32, parameters, random=SYSTEM_RANDOM)
    encoder.encode_subject(["a==1"])
    # Masks, padding and nonces come from the operating system, never from copied state.
    encoded = {forked(lambda: encoder.encode_subject(["a==1"])) for _ in range(6)}
    assert len(encoded) == 6
    policy = encoder.encode_policy(["a==1"])
    assert all(match(policy, one, parameters).granted for one in encoded)
    assert len({forked(lambda: generate_sealing_key().private) for _ in range(6)}) == 6
