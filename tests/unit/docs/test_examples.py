"""The examples in the documents do what the documents say."""

from __future__ import annotations

import doctest
import importlib

import pytest

import policyengine
from tests.support.processes import REPOSITORY

FOLDER = REPOSITORY / "docs"


@pytest.mark.parametrize("page", ["engine.md"])
def test_examples_run(page: str) -> None:
    result = doctest.testfile(
        str(FOLDER / page), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_the_engine_loads_its_packages_when_they_are_named() -> None:
    assert "attributes" in dir(policyengine)
    for name in policyengine.__all__:
        assert policyengine.__getattr__(name) is importlib.import_module(f"policyengine.{name}")
    with pytest.raises(AttributeError, match="no attribute"):
        _ = policyengine.nothing
