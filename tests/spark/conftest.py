"""One Spark session for all tests of this folder, with the event log turned on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark.session import SessionOptions, session
from tests.spark.cases import DRIVER_JAR, Case
from tests.support.services import postgresql

__all__ = ["postgresql"]


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("event-log")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, event_log: Path) -> Iterator[SparkSession]:
    options = SessionOptions(
        master="local[2]",
        local_dir=tmp_path_factory.mktemp("spark"),
        event_log=event_log,
        jars=(DRIVER_JAR,),
    )
    started = session(options)
    yield started
    started.stop()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)
