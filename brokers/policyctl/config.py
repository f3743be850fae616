"""Where the server is, and who calls."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from brokers.policyctl.errors import Exit, Stop

SERVER = "PORTCULLIS_SERVER"
TOKEN = "PORTCULLIS_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "PORTCULLIS_TOKEN_FILE"  # noqa: S105
CA_FILE = "PORTCULLIS_CA"
_TOKEN = re.compile(r"pct_[A-Za-z0-9_-]{20,200}")
_MAX_TOKEN_FILE = 4096


@dataclass(frozen=True)
class Target:
    """One server, and how to speak to it.

    Args:
        server: its address, without a slash at the end.
        token: the bearer token.
        ca: file with the certificates to trust, None for the system's.
    """

    server: str
    token: str
    ca: Path | None = None


def target(
    environment: Mapping[str, str],
    *,
    server: str | None = None,
    token_file: Path | None = None,
    ca: Path | None = None,
) -> Target:
    """Put together what the command line and the environment say; the command line wins.

    Raises:
        Stop: something is missing, or the token would not stay a secret.
    """
    address = _server(server or environment.get(SERVER, ""))
    if ca is None and environment.get(CA_FILE):
        ca = Path(environment[CA_FILE])
    return Target(address, _token(environment, token_file), ca)


def _server(address: str) -> str:
    if not address:
        raise Stop(Exit.ERROR, f"name the server with --server or {SERVER}")
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query:
        raise Stop(Exit.ERROR, f"`{address}` is no address such as https://portcullis.example")
    if parts.username or parts.password:
        raise Stop(Exit.ERROR, "the server's address holds no name and no password")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise Stop(Exit.ERROR, "only https: the token would travel in clear")
    return address.rstrip("/").removesuffix("/api/v1")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _token(environment: Mapping[str, str], file: Path | None) -> str:
    if file is None and not environment.get(TOKEN) and environment.get(TOKEN_FILE):
        file = Path(environment[TOKEN_FILE])
    text = environment.get(TOKEN, "") if file is None else read_token(file)
    if not text:
        raise Stop(
            Exit.SIGNED_OUT, f"give a token in {TOKEN}, or a file of mode 0600 with --token-file"
        )
    if not _TOKEN.fullmatch(text):
        raise Stop(Exit.SIGNED_OUT, "that is no token of Portcullis (pct_...)")
    return text


def read_token(file: Path) -> str:
    """The token in a file that nobody else can read.

    Raises:
        Stop: it cannot be read, or others could.
    """
    try:
        # Looked at through the open file: nobody can put another one in its place meanwhile.
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            _private(file, status)
            data = opened.read(_MAX_TOKEN_FILE)
    except OSError as error:
        raise Stop(Exit.SIGNED_OUT, f"{file} cannot be read: {error.strerror}") from error
    return data.decode("ascii", "replace").strip()


def _private(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Stop(Exit.SIGNED_OUT, f"{file} is no file")
    if status.st_uid != os.geteuid():
        raise Stop(Exit.SIGNED_OUT, f"{file} belongs to somebody else")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise Stop(
            Exit.SIGNED_OUT,
            f"{file} has mode {mode:04o}: others could use the token; run chmod 600 {file}",
        )
