"""A real Spark standalone cluster on loopback: one master, one worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from spark.session import CONFIGURATION
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import running

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def spark_cluster(folder: Path) -> Iterator[str]:
    """Run a master and a worker with two cores; give the master's address.

    Args:
        folder: takes logs and the worker's files.
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
    worker = [str(_CLASS), _WORKER, "--host", "127.0.0.1", "--cores", "2", "--memory", "1g"]
    with running(
        [*master, "--webui-port", "0"], log=folder / "master.log", environment=environment
    ) as first:
        wait_until(
            lambda: answers(port) or first.process.poll() is not None,
            seconds=60,
            what="Spark's master",
        )
        assert first.process.poll() is None, first.text()
        with running(
            [*worker, "--webui-port", "0", address],
            log=folder / "worker.log",
            environment=environment,
        ):
            yield address
