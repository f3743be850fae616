"""Keeps secrets out of the log, whoever writes the line."""

from __future__ import annotations

import logging
import re

_SECRETS = (
    re.compile(r"pct_[A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)(?<=bearer )[^\s'\"]+"),
    re.compile(r"(?i)(?<=(?:passcode|password)[=:])\s*[^\s,;'\"]+"),
    re.compile(r"(?<=://)[^\s/@]+:[^\s/@]+(?=@)"),
)


def redact(text: str) -> str:
    for pattern in _SECRETS:
        text = pattern.sub("[removed]", text)
    return text


class Redact(logging.Filter):
    """Rewrites tokens, passwords and credentials in addresses before a line is written."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        cleaned = redact(message)
        if cleaned != message:
            record.msg, record.args = cleaned, None
        return True
