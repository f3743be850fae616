"""The security model names tests that exist, and speaks of every profile."""

from __future__ import annotations

import ast
import re

from policyengine.privacy import PROFILES
from tests.support.processes import REPOSITORY

PAGE = (REPOSITORY / "docs" / "security-model.md").read_text()


def test_every_test_it_points_at_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 40
    missing = [f"{path}::{name}" for path, name in named if not exists(path, name)]
    assert missing == []


def exists(path: str, name: str) -> bool:
    file = REPOSITORY / path
    if not file.is_file():
        return False
    tree = ast.parse(file.read_text())
    return not name or any(
        isinstance(each, ast.FunctionDef) and each.name == name for each in tree.body
    )


def test_it_speaks_of_every_profile() -> None:
    headings = re.findall(r"^### (.*?)(?: \(papers? .*\))?$", PAGE, re.MULTILINE)
    assert [heading.lower() for heading in headings] == list(PROFILES)
