"""Where the passphrase of a backup comes from."""

from __future__ import annotations

from getpass import getpass
from pathlib import Path

from django.core.management.base import CommandError

SHORTEST = 12


def from_file(path: Path) -> str:
    """The first line of a file that nobody else may read."""
    try:
        if path.stat().st_mode & 0o077:
            raise CommandError(f"{path} is readable by others: chmod 600 it")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read") from error
    return _checked(text.split("\n", 1)[0])


def ask(*, twice: bool) -> str:
    """What the person at the terminal types."""
    passphrase = _checked(getpass("Passphrase: "))
    if twice and getpass("Once more: ") != passphrase:
        raise CommandError("the two passphrases differ")
    return passphrase


def _checked(passphrase: str) -> str:
    if len(passphrase) < SHORTEST:
        raise CommandError(f"a passphrase has at least {SHORTEST} characters")
    return passphrase
