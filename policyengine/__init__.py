"""The policy engine of Portcullis: language, encodings, encryption, roles, privacy, bundles.

Pure Python without a file, a socket or a clock: values, bytes, time and randomness come in
as arguments. `docs/engine.md` shows each package in use. `import policyengine` is cheap; a
package is loaded when its name is first used (`policyengine.attributes.parse`).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

__all__ = [
    "abe",
    "anonset",
    "attributes",
    "bundles",
    "errors",
    "events",
    "ope",
    "primitives",
    "privacy",
    "roles",
    "sde",
    "trustgroups",
]
_PACKAGES: Final = frozenset(__all__)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_PACKAGES)
