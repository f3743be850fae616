"""What the schemes of attributes that agents cannot read have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdmittedHidden:
    """One scheme's share of a part that may go on.

    Args:
        data: `blind.RoutedBlind` or `ope.RangeValues`; empty where there is none.
        dropped: attributes that were left out, because the publisher may not write them.
    """

    data: bytes = b""
    dropped: tuple[str, ...] = ()
