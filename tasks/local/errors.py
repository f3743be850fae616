"""Errors of the local runner: each says what is wrong and what to do about it."""

from __future__ import annotations


class LocalError(Exception):
    """Something on this machine keeps the product from running; the message says what to do."""
