"""One way to get a Spark session: small, quiet and closed to the network."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIGURATION = Path(__file__).resolve().parent / "conf"

# Short jobs: the serial collector and the first compiler alone start a second sooner
# and keep the second core for Python.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What may differ from one installation to the next.

    Args:
        master: `local[*]`, `local[2]` or `spark://host:port`.
        memory: heap of the driver and of each executor, as Java writes it.
        local_dir: folder for spilled data; None is the system's temporary folder.
        event_log: folder for Spark's event log; None is no event log.
    """

    master: str = "local[*]"
    memory: str = "512m"
    local_dir: Path | None = None
    event_log: Path | None = None


def session(options: SessionOptions) -> SparkSession:
    """Start a session, or give the one that runs in this process already.

    `SPARK_LOCAL_IP` (loopback), `SPARK_CONF_DIR` (this package's) and `PYSPARK_PYTHON`
    (this interpreter) are set unless the environment says otherwise.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_CONF_DIR", str(CONFIGURATION))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = SparkSession.builder.appName("portcullis").master(options.master)
    for name, value in settings(options).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def settings(options: SessionOptions) -> dict[str, str]:
    """List the settings of a session, none of them secret."""
    local_dir = str(options.local_dir or gettempdir())
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.master.rest.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(local_dir) / "spark-warehouse"),
        "spark.local.dir": local_dir,
        "spark.driver.memory": options.memory,
        "spark.executor.memory": options.memory,
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        **_reading(),
        **_network(options.master),
        **_event_log(options.event_log),
    }


def _reading() -> dict[str, str]:
    """Splits small enough that memory stays flat and that every core gets one."""
    return {
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.sql.files.openCostInBytes": "256k",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
        "spark.sql.parquet.compression.codec": "uncompressed",  # encodings look random
        "spark.hadoop.parquet.block.size": str(16 << 20),
        "spark.hadoop.parquet.enable.dictionary": "false",
    }


def _network(master: str) -> dict[str, str]:
    """Within one machine nobody else may talk to the driver."""
    if not master.startswith("local"):
        return {}
    return {
        "spark.authenticate": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _event_log(folder: Path | None) -> dict[str, str]:
    if folder is None:
        return {"spark.eventLog.enabled": "false"}
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.resolve().as_uri(),
        "spark.eventLog.compress": "false",
    }
