"""Where webhooks may lead: to the world outside and never into our own network.

An address is looked at twice: as it is written, when it is saved, and as it resolves, each time
that something is sent. The connection is made to the very address that was looked at, so that a
name cannot resolve to something else in between.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from django.conf import settings

MAX_URL = 500
_PORTS = {"https": 443, "http": 80}

Address = IPv4Address | IPv6Address


class NotAllowed(Exception):
    """A webhook must not lead there."""


@dataclass(frozen=True)
class Target:
    """A URL in its parts.

    Args:
        secure: whether by TLS.
        host: name or literal address.
        port: its port.
        path: path and query.
    """

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """As it stands in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.secure else "http"]
        return host if self.port == usual else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """Take a URL apart.

    Raises:
        NotAllowed: it is none, or one that webhooks may not have.
    """
    if len(url) > MAX_URL or not url.isascii() or any(each <= " " for each in url):
        raise NotAllowed(f"an address has at most {MAX_URL} plain characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotAllowed("this is no address") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise NotAllowed("an address begins with https://")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise NotAllowed("an address holds no name, password or fragment")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = Target(parts.scheme == "https", parts.hostname, port or _PORTS[parts.scheme], path)
    _check_written(target)
    return target


def _check_written(target: Target) -> None:
    literal = _literal(target.host)
    local = target.host == "localhost" or (literal is not None and literal.is_loopback)
    if not target.secure and not (local and settings.WEBHOOK_LOOPBACK):
        raise NotAllowed("an address begins with https://")
    if local and not settings.WEBHOOK_LOOPBACK:
        raise NotAllowed("an address leads out of this machine")
    if literal is not None:
        _check(literal)


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def resolve(target: Target) -> str:
    """One address to connect to; all that the name resolves to must be allowed.

    Raises:
        NotAllowed: it leads into a private network.
        OSError: the name does not resolve.
    """
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    if not addresses:
        raise NotAllowed("the name resolves to nothing")
    for address in addresses:
        _check(address)
    return str(addresses[0])


def _check(address: Address) -> None:
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if inner.is_loopback and settings.WEBHOOK_LOOPBACK:
        return
    if not inner.is_global or inner.is_multicast or inner.is_reserved:
        raise NotAllowed("an address leads to the public network")
