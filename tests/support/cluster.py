"""A real Spark standalone cluster on loopback: one master, two workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from spark.session import CONFIGURATION
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import Running, children_of, running

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Args:
        address: of its master, `spark://...`.
        workers: the processes of its workers; their children are executors.
    """

    address: str
    workers: tuple[Running, ...]

    def executors(self) -> list[int]:
        """Give the ids of the executors that run just now."""
        return [child for worker in self.workers for child in children_of(worker.pid)]


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """Run a master and workers until the block ends.

    Args:
        folder: takes logs and the workers' files.
        workers: how many.
        cores: of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(CONFIGURATION),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(folder / "worker"),
        "PATH": os.environ["PATH"],
    }
    master = [str(_CLASS), _MASTER, "--host", "127.0.0.1", "--port", str(port)]
    worker = [str(_CLASS), _WORKER, "--host", "127.0.0.1", "--cores", str(cores)]
    with ExitStack() as stack:

        def start(name: str, command: list[str]) -> Running:
            log = folder / f"{name}.log"
            return stack.enter_context(running(command, log=log, environment=environment))

        first = start("master", [*master, "--webui-port", "0"])
        wait_until(
            lambda: answers(port) or first.process.poll() is not None,
            seconds=180,
            what="Spark's master",
        )
        assert first.process.poll() is None, first.text()
        more = [*worker, "--memory", "1g", "--webui-port", "0", address]
        yield Cluster(address, tuple(start(f"worker-{n}", more) for n in range(workers)))
