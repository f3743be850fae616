"""One way to get a Spark session: small, quiet and closed to the network."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import SparkSession

from spark.errors import PipelineError
from spark.sources import PASSWORD_FILE
from spark.tables import check_private

REPOSITORY = Path(__file__).resolve().parent.parent
CONFIGURATION = Path(__file__).resolve().parent / "conf"

# Short jobs: the serial collector and the first compiler alone start a second sooner
# and keep the second core for Python.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_SETTING = re.compile(r"(spark\.[A-Za-z0-9_.-]+)(?:\s*=\s*|\s+)(\S.*)")
_SECRET = re.compile(r"(?i)secret|password|token|credential")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What may differ from one installation to the next.

    Args:
        master: `local[*]`, `spark://host:port`, `yarn` or `k8s://https://host:port`.
        memory: heap of the driver and of each executor, as Java writes it.
        local_dir: folder for spilled data; None is the system's temporary folder.
        event_log: folder for Spark's event log; None is no event log.
        jars: Java libraries that driver and executors need.
        password_file: path that the JDBC driver looks passwords up in.
        more: the operator's own settings; they win over these.
    """

    master: str = "local[*]"
    memory: str = "512m"
    local_dir: Path | None = None
    event_log: Path | None = None
    jars: tuple[Path, ...] = ()
    password_file: Path | None = None
    more: Mapping[str, str] = field(default_factory=dict)


def read_settings(path: Path) -> dict[str, str]:
    """Read a file of settings as Spark has them: a name, white space or `=`, a value; `#` comments.

    Raises:
        PipelineError: the file cannot be read, a line is none of these, or others may read a file
            that holds a secret.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise PipelineError(f"the settings `{path}` cannot be read") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _SETTING.fullmatch(text)
        if match is None:
            raise PipelineError(f"line {number} of `{path}` is no setting of Spark's")
        found[match[1]] = match[2]
    if any(_SECRET.search(name) for name in found):
        check_private(path)
    return found


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
    with _undisturbed():
        return builder.getOrCreate()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put SIGTERM off until Spark's JVM is connected.

    Whoever ended before that took the folder away in which the JVM is to say where it listens;
    it would fail there, and never end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if told:
            signal.raise_signal(signal.SIGTERM)


def settings(options: SessionOptions) -> dict[str, str]:
    """List the settings of a session, none of them secret."""
    return {**_own_settings(options), **options.more}


def _own_settings(options: SessionOptions) -> dict[str, str]:
    local_dir = str(options.local_dir or gettempdir())
    java = _JAVA
    if options.password_file is not None:
        java += f' "-D{PASSWORD_FILE}={options.password_file}"'
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.master.rest.enabled": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(local_dir) / "spark-warehouse"),
        "spark.redaction.regex": "(?i)secret|password|token|credential|access[.]?key",
        "spark.jars": ",".join(map(str, options.jars)),
        "spark.driver.memory": options.memory,
        "spark.executor.memory": options.memory,
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        **_reading(),
        **_on_this_machine(options.master, local_dir),
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


def _on_this_machine(master: str, local_dir: str) -> dict[str, str]:
    """Within one machine nobody else may talk to the driver, and folders are the same for all.

    On a cluster executors have folders of their own, and the network is the operator's.
    """
    if not master.startswith("local"):
        return {}
    return {
        "spark.local.dir": local_dir,
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
