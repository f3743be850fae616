"""Recompute: Spark on this machine against one process, with the same encoder.

Both read the same snapshot and end with the same checked, published result. Each runs in
a process of its own, so that its memory can be watched; starting Python, Java and the
session does not count, as it does not grow with the work. PRF tokens are measured at two
sizes (memory must stay flat), the Bloom encoding with auxiliary filters at one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from benchmarks import memory
from benchmarks.tables import table, times
from policyengine.anonset import Encoding, length_for, size_for
from spark.jobs.recompute import Recompute
from spark.jobs.recompute import run as recompute
from spark.results import COLUMNS, AgentResult, Summary, agent_folder, digest_of, publish
from spark.snapshots import (
    AgentEncoding,
    Manifest,
    SnapshotRow,
    create_job_key,
    read_summary,
    write_snapshot,
)
from spark.transforms.encode import BatchEncoder, encoded

AGENTS = tuple(f"agent-{number}" for number in range(10))
CONJUNCTIONS = 3
ATTRIBUTES = 10
BATCH = 1024
REPOSITORY = Path(__file__).resolve().parent.parent


# -- the two ways, each in a process of its own ---------------------------------------------------


def one_process(job: Recompute) -> float:
    """Encode everything here, agent by agent; give the seconds."""
    start = time.perf_counter()
    manifest = Manifest.load(job.snapshot)
    manifest.check_files()
    encoder = BatchEncoder.open(job.snapshot, job.key_file)
    results: dict[str, AgentResult] = {}
    for name, entry in manifest.agents.items():
        folder = agent_folder(job.output, name)
        folder.mkdir(parents=True)
        _encode_file(encoder, job.snapshot / str(entry.file), folder / "part-0.parquet")
        results[name], index = digest_of(folder, epoch=manifest.epoch)
        if index != entry.index:
            raise AssertionError("rows were lost")
    publish(job.output, Summary(manifest.domain, manifest.epoch, manifest.digest, results))
    return time.perf_counter() - start


def _encode_file(encoder: BatchEncoder, source: Path, target: Path) -> None:
    writer = None
    with pq.ParquetFile(source) as file:
        for batch in file.iter_batches(BATCH):
            done = encoder.encode(batch).select(list(COLUMNS))
            if writer is None:
                writer = pq.ParquetWriter(
                    target, done.schema, compression="none", use_dictionary=False
                )
            writer.write_batch(done)
    if writer is not None:
        writer.close()


def with_spark(job: Recompute, master: str) -> float:
    """Run the job on a session that is warm; give the seconds."""
    from spark.session import SessionOptions, session

    spark = session(SessionOptions(master=master, local_dir=job.output.parent / "spark"))
    rows = spark.read.parquet(str(job.snapshot / "rows-00000.parquet")).limit(2 * BATCH)
    warm = encoded(rows, snapshot=job.snapshot, key_file=job.key_file)
    warm.write.parquet(str(job.output.parent / "warm"))
    try:
        start = time.perf_counter()
        recompute(job, lambda: spark)
        return time.perf_counter() - start
    finally:
        spark.stop()


# -- the comparison -------------------------------------------------------------------------------


def rows(customers: int) -> Iterator[SnapshotRow]:
    """Give three conjunctions of ten attributes a customer, customers spread over agents."""
    each = customers // len(AGENTS)
    for number, agent in enumerate(AGENTS):
        for customer in range(each):
            for position in range(CONJUNCTIONS):
                seed = (number * each + customer) * CONJUNCTIONS + position
                tokens = tuple(
                    f"attribute{place}=={seed * (place + 7) % (13 << place)}"
                    for place in range(ATTRIBUTES)
                )
                yield SnapshotRow(agent, "subject", f"p-{customer:016x}", position, tokens)


def compare(customers: int, encoding: Encoding, cores: int) -> None:
    """Run both ways over the same snapshot and print what came of it."""
    with TemporaryDirectory(prefix="portcullis-bench-") as name:
        folder = Path(name)
        total = _snapshot(folder, customers, encoding)
        found = {}
        for way, master in (("one process", "-"), (f"Spark local[{cores}]", f"local[{cores}]")):
            output = folder / ("one" if master == "-" else "spark") / "output"
            output.mkdir(parents=True)
            words = [sys.executable, "-m", "benchmarks.bench_recompute", "--child", master]
            done = memory.run([*words, "--folder", str(output)], folder=REPOSITORY)
            if read_summary(output).rows != total:
                raise AssertionError("rows were lost")
            found[way] = json.loads(done.output)["seconds"], done.peak
        base = found["one process"][0]
        table(
            f"{encoding}: {customers:,} customers x {CONJUNCTIONS} conjunctions x {ATTRIBUTES}"
            " attributes, from rows to published partitions",
            ["", "rows/s", "memory", "ratio"],
            [
                [way, f"{total / taken:,.0f}", f"{peak / 2**20:,.0f} MB", times(base / taken)]
                for way, (taken, peak) in found.items()
            ],
        )


def _snapshot(folder: Path, customers: int, encoding: Encoding) -> int:
    blinded = length_for(ATTRIBUTES) if encoding == "bloom" else ATTRIBUTES
    parameters = size_for(blinded, encoding=encoding).to_json()
    manifest = write_snapshot(
        folder / "snapshot",
        domain="bench",
        epoch=1,
        agents={
            agent: AgentEncoding(parameters, bytes([number]) * 32)
            for number, agent in enumerate(AGENTS)
        },
        rows=rows(customers),
        job_key=create_job_key(folder / "key"),
    )
    return manifest.rows


def _child(output: Path, master: str) -> None:
    folder = output.parent.parent
    job = Recompute(folder / "snapshot", output, folder / "key", output.parent / "progress")
    taken = one_process(job) if master == "-" else with_spark(job, master)
    print(json.dumps({"seconds": taken}))


def main(argv: Sequence[str]) -> None:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_recompute")
    parser.add_argument("--customers", type=int, default=1_000_000, help="with PRF tokens")
    parser.add_argument("--bloom-customers", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="50,000 and 3,000 customers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _child(options.folder, options.child)
        return
    tokens, bloom = options.customers, options.bloom_customers
    if options.quick:
        tokens, bloom = 50_000, 3_000
    else:
        compare(tokens // 10, "tokens", options.cores)
    compare(tokens, "tokens", options.cores)
    compare(bloom, "bloom", options.cores)


if __name__ == "__main__":
    main(sys.argv[1:])
