"""Reads the PORTCULLIS_* environment; everything that may be configured passes through here."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

ENVIRONMENTS = ("development", "test", "production")


def environment() -> str:
    """The environment in force; production unless somebody says otherwise."""
    name = os.environ.get("PORTCULLIS_ENV", "production")
    if name not in ENVIRONMENTS:
        raise ImproperlyConfigured(
            f"PORTCULLIS_ENV is {name!r}; it must be one of {', '.join(ENVIRONMENTS)}"
        )
    return name


def text(name: str, default: str) -> str:
    return os.environ.get(name) or default


def choice(name: str, words: tuple[str, ...]) -> str:
    """One of a few words; the first one by default."""
    value = os.environ.get(name, words[0])
    if value not in words:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(words)}")
    return value


def integer(name: str, default: int, *, minimum: int = 0) -> int:
    raw = os.environ.get(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a whole number") from error
    if value < minimum:
        raise ImproperlyConfigured(f"{name} must be at least {minimum}")
    return value


def flag(name: str, default: bool = False) -> bool:
    raw = os.environ.get(name)
    if not raw:
        return default
    return raw.lower() in {"1", "true", "yes", "on"}


def listing(name: str, default: tuple[str, ...] = ()) -> list[str]:
    raw = os.environ.get(name)
    if not raw:
        return list(default)
    return [part.strip() for part in raw.split(",") if part.strip()]


def secret_key(env: str, var_dir: Path) -> str:
    """The key that signs sessions.

    Production has no default: without PORTCULLIS_SECRET_KEY or PORTCULLIS_SECRET_KEY_FILE it
    refuses to start. Elsewhere a random one is made once and kept in the state folder.
    """
    direct = os.environ.get("PORTCULLIS_SECRET_KEY")
    if direct:
        return _checked(direct, "PORTCULLIS_SECRET_KEY")
    file_name = os.environ.get("PORTCULLIS_SECRET_KEY_FILE")
    if file_name:
        return _checked(_read(Path(file_name)), "PORTCULLIS_SECRET_KEY_FILE")
    if env == "production":
        raise ImproperlyConfigured(
            "production needs PORTCULLIS_SECRET_KEY or PORTCULLIS_SECRET_KEY_FILE "
            "(a random text of 50 characters or more)"
        )
    return _generated(var_dir / "secret-key")


def audit_key(var_dir: Path) -> str:
    """The secret under which the audit is sealed; made once in the state folder unless given.

    Every process of one control plane needs the same one.
    """
    direct = os.environ.get("PORTCULLIS_AUDIT_KEY")
    if direct:
        return _checked(direct, "PORTCULLIS_AUDIT_KEY")
    file_name = os.environ.get("PORTCULLIS_AUDIT_KEY_FILE")
    if file_name:
        return _checked(_read(Path(file_name)), "PORTCULLIS_AUDIT_KEY_FILE")
    return _checked(_generated(var_dir / "audit-key"), str(var_dir / "audit-key"))


def _checked(key: str, source: str) -> str:
    if len(key) < 32:
        raise ImproperlyConfigured(f"{source} holds fewer than 32 characters")
    return key


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"the secret key file cannot be read: {error.strerror}"
        ) from error


def _generated(path: Path) -> str:
    """Several processes may start at once: exactly one of them creates the file."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(64))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return _read(path)


# A server that vanishes without a word, as hosts and networks do, is noticed within half a minute
# also by who waits for its answer; the system's own patience is hours.
_IDLE, _BETWEEN, _TIMES, _UNHEARD = 10, 5, 3, 25
_GONE_POSTGRESQL = {
    "keepalives_idle": _IDLE,
    "keepalives_interval": _BETWEEN,
    "keepalives_count": _TIMES,
    "tcp_user_timeout": _UNHEARD * 1000,
}
_GONE_REDIS = {
    "socket_connect_timeout": 10,
    # Where something between them keeps the connection up, only a missing answer shows it.
    "socket_timeout": 10,
    "health_check_interval": 10,
    # Whatever is said twice is done once. What a worker lets go of must get there: it takes no
    # more work while it believes that it holds some.
    "retry_on_timeout": True,
    "socket_keepalive": True,
    # Those of them that this system has.
    "socket_keepalive_options": {
        getattr(socket, name): value
        for name, value in (
            ("TCP_KEEPIDLE", _IDLE),
            ("TCP_KEEPINTVL", _BETWEEN),
            ("TCP_KEEPCNT", _TIMES),
            ("TCP_USER_TIMEOUT", _UNHEARD * 1000),
        )
        if hasattr(socket, name)
    },
}


def database(url: str, var_dir: Path) -> dict[str, Any]:
    """A Django database entry from `sqlite:///path` or `postgresql://user:pw@host:port/name`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite(unquote(parts.path), var_dir)
    if parts.scheme in {"postgresql", "postgres"}:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname or "",
            "PORT": str(parts.port or ""),
            "CONN_MAX_AGE": 60,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {"connect_timeout": 10, **_GONE_POSTGRESQL},
        }
    raise ImproperlyConfigured(
        "PORTCULLIS_DATABASE_URL must start with sqlite:/// or postgresql://"
    )


def _sqlite(path: str, var_dir: Path) -> dict[str, Any]:
    """Three slashes name a file in the state folder, four an absolute path."""
    file = var_dir / path.removeprefix("/")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "OPTIONS": {
            # Readers never wait for the writer, and a writer takes its lock at BEGIN, so that
            # two of them queue up instead of failing half-way.
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    }


def cache(url: str) -> dict[str, Any]:
    if not url:
        return {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "LOCATION": "portcullis",
        }
    if urlsplit(url).scheme in {"redis", "rediss"}:
        return {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": url,
            "OPTIONS": dict(_GONE_REDIS),
        }
    raise ImproperlyConfigured("PORTCULLIS_CACHE_URL must start with redis://")


def celery_transport(url: str, folder: Path) -> dict[str, Any]:
    """Options of Celery's transport: folders for the embedded one, timeouts for Redis."""
    if not url.startswith("filesystem:"):
        return {"visibility_timeout": 60, "unacked_restore_throttle": 1, **_GONE_REDIS}
    messages, control = folder / "messages", folder / "control"
    for path in (messages, control):
        path.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": 0.05,
    }
