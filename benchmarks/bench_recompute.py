"""Recompute: Spark on this machine and on a standalone cluster against one process of numpy.

All use the same encoder, read the same snapshot and end with the same checked, published
result. Each runs in a process of its own, so that its memory can be watched; starting Python,
Java, the session and the cluster does not count, as it does not grow with the work. PRF tokens
are measured at two sizes (memory must stay flat), the Bloom encoding with auxiliary filters at
one. The cluster is a master and two workers of one core on loopback; what is counted of it are
the driver and the executors.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from benchmarks import memory
from benchmarks.aims import Aim, summary
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
from tests.support.cluster import spark_cluster

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


@dataclass(frozen=True, slots=True)
class Way:
    """One way to compute a result, as it came out.

    Args:
        seconds: from rows to published partitions.
        peak: most memory of all processes that worked on it, in bytes.
    """

    seconds: float
    peak: int


def compare(customers: int, encoding: Encoding, cores: int, *, cluster: bool) -> dict[str, Way]:
    """Run every way over the same snapshot and print what came of it."""
    with TemporaryDirectory(prefix="portcullis-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        total = _snapshot(folder, customers, encoding)
        found = {"one process": _measure(folder / "one", "-", total)}
        local = f"local[{cores}]"
        found[f"Spark {local}"] = _measure(folder / "local", local, total)
        if cluster:
            running = stack.enter_context(
                spark_cluster(folder / "cluster", cores=max(cores // 2, 1))
            )
            found["Spark standalone, 2 workers"] = _measure(
                folder / "standalone", running.address, total, running.executors
            )
        base = found["one process"].seconds
        table(
            f"{encoding}: {customers:,} customers x {CONJUNCTIONS} conjunctions x {ATTRIBUTES}"
            " attributes, from rows to published partitions",
            ["", "rows/s", "memory", "ratio"],
            [
                [
                    way,
                    f"{total / done.seconds:,.0f}",
                    f"{done.peak / 2**20:,.0f} MB",
                    times(base / done.seconds),
                ]
                for way, done in found.items()
            ],
        )
        return found


def _measure(
    place: Path, master: str, total: int, beside: Callable[[], Sequence[int]] = tuple
) -> Way:
    output = place / "output"
    output.mkdir(parents=True)
    words = [sys.executable, "-m", "benchmarks.bench_recompute", "--child", master]
    done = memory.run([*words, "--folder", str(output)], folder=REPOSITORY, beside=beside)
    if read_summary(output).rows != total:
        raise AssertionError("rows were lost")
    return Way(json.loads(done.output)["seconds"], done.peak)


def aims_of(encoding: str, ways: dict[str, Way], small: dict[str, Way] | None = None) -> list[Aim]:
    """Hold what was measured against what is to be reached."""
    one, local, *more = ways.values()
    what = f"recompute, {encoding}"
    found = [Aim(f"{what}, local", "one process of numpy", 1.0, one.seconds / local.seconds)]
    if more:
        ratio = local.seconds / more[0].seconds
        found.append(Aim(f"{what}, standalone cluster", "Spark local", 1 / 1.5, ratio))
    if small is not None:
        # What Java keeps for itself moves by a tenth from run to run.
        before = list(small.values())[1]
        found.append(
            Aim(f"{what}, memory at ten times the size", "a tenth", 0.8, before.peak / local.peak)
        )
    return found


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


def main(argv: Sequence[str]) -> list[Aim]:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_recompute")
    parser.add_argument("--customers", type=int, default=1_000_000, help="with PRF tokens")
    parser.add_argument("--bloom-customers", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--no-cluster", action="store_true", help="leave the cluster out")
    parser.add_argument("--quick", action="store_true", help="50,000 and 3,000 customers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _child(options.folder, options.child)
        return []
    tokens, bloom = options.customers, options.bloom_customers
    if options.quick:
        tokens, bloom = 50_000, 3_000
    run = partial(compare, cores=options.cores, cluster=not options.no_cluster)
    small = None if options.quick else run(tokens // 10, "tokens")
    aims = aims_of("tokens", run(tokens, "tokens"), small)
    return aims + aims_of("bloom", run(bloom, "bloom"))


if __name__ == "__main__":
    if found := main(sys.argv[1:]):
        summary(found)
