"""Snapshot rows to encoded rows, by the kernel that inline encoding uses too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from policyengine.anonset import Encoder, Parameters
from policyengine.errors import InputError, PortcullisError
from policyengine.primitives.rand import SYSTEM_RANDOM
from spark.errors import PipelineError
from spark.keys import open_encoding_key, read_job_key
from spark.schemas import ENCODED, ENCODED_DDL, KINDS, RULE
from spark.snapshots import Manifest

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame

_SLICE = 1024
"""Rows encoded at a time: bounds a worker's memory when encodings take kilobytes."""


def encoded(
    rows: DataFrame, *, snapshot: Path, key_file: Path, counter: Accumulator[int] | None = None
) -> DataFrame:
    """Encode every row under its agent's key.

    Args:
        rows: columns of `schemas.SNAPSHOT`.
        snapshot: the snapshot's folder; workers read the sealed keys there.
        key_file: path of the job key; workers read the key there, so only the path
            travels with the task.
        counter: counts rows as they are encoded, or None.

    Returns:
        Columns of `schemas.ENCODED`, rows in the order they came.
    """
    folder, key_path = str(snapshot), str(key_file)

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoder = BatchEncoder.open(Path(folder), Path(key_path))
        for batch in batches:
            for start in range(0, batch.num_rows, _SLICE):
                part = batch.slice(start, _SLICE)
                yield encoder.encode(part)
                if counter is not None:
                    counter.add(part.num_rows)

    return rows.mapInArrow(encode, ENCODED_DDL)


class BatchEncoder:
    """Encodes Arrow batches of a snapshot.

    Args:
        manifest: the snapshot's table of contents.
        open_key: gives an agent's encoding key.
    """

    def __init__(self, manifest: Manifest, open_key: Callable[[str], bytes]) -> None:
        self._manifest = manifest
        self._open_key = open_key
        self._encoders: dict[str, Encoder] = {}

    @classmethod
    def open(cls, snapshot: Path, key_file: Path) -> BatchEncoder:
        """Read what a worker needs from the snapshot's folder and the key's file.

        Raises:
            PipelineError: the snapshot or the job key cannot be read.
        """
        manifest = Manifest.load(snapshot)
        job_key = read_job_key(key_file)

        def open_key(agent: str) -> bytes:
            sealed = manifest.agents[agent].sealed_key
            return open_encoding_key(job_key, sealed, agent=agent, epoch=manifest.epoch)

        return cls(manifest, open_key)

    def check(self) -> None:
        """Open every agent's key and read its parameters.

        Raises:
            PipelineError: naming the agent whose key does not open, or whose
                parameters make no sense.
        """
        for agent in self._manifest.agents:
            self._encoder(agent)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Encode one batch; the answer's rows stand in the same order.

        Raises:
            PipelineError: a row is of another snapshot, or cannot be encoded.
        """
        agents, kinds = batch.column("agent").to_pylist(), batch.column("kind").to_pylist()
        tokens = batch.column("tokens").to_pylist()
        encodings: list[bytes] = []
        for (agent, kind), run in groupby(zip(agents, kinds, strict=True)):
            first = len(encodings)
            last = first + sum(1 for _ in run)
            encodings += self._encode_run(agent, kind, tokens[first:last])
        self._check_epoch(batch)
        kept = [batch.column(field.name) for field in ENCODED if field.name != "encoded"]
        return pa.RecordBatch.from_arrays(
            [*kept, pa.array(encodings, pa.binary())], names=ENCODED.names
        )

    def _encode_run(self, agent: str, kind: str, tokens: list[list[str]]) -> list[bytes]:
        encoder = self._encoder(agent)
        if kind not in KINDS:
            raise PipelineError(f"the snapshot has a row of an unknown kind for agent `{agent}`")
        try:
            many = encoder.encode_policies if kind == RULE else encoder.encode_subjects
            return many(tokens)
        except InputError as error:
            # The engine's message may quote the policy: only its kind goes any further.
            message = f"a {kind} of agent `{agent}` cannot be encoded ({error.kind})"
            raise PipelineError(message) from None

    def _encoder(self, agent: str) -> Encoder:
        """Give an agent's encoder; it lasts as long as the task and learns its tokens."""
        if agent not in self._encoders:
            entry = self._manifest.agents.get(agent)
            if entry is None:
                raise PipelineError(f"the snapshot names agent `{agent}` without a key")
            try:
                parameters = Parameters.from_json(entry.parameters)
                encoder = Encoder(self._open_key(agent), parameters, random=SYSTEM_RANDOM)
            except PortcullisError:
                message = f"the snapshot has unusable parameters for agent `{agent}`"
                raise PipelineError(message) from None
            self._encoders[agent] = encoder
        return self._encoders[agent]

    def _check_epoch(self, batch: pa.RecordBatch) -> None:
        if set(batch.column("epoch").unique().to_pylist()) - {self._manifest.epoch}:
            raise PipelineError("the snapshot has rows of another epoch")
