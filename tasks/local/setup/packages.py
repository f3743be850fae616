"""Debian's packages: which are missing, and how to get them.

What is there is found by looking for files and commands, not by asking dpkg, so that a Java or a
Node from elsewhere serves as well.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.local.errors import LocalError
from tasks.local.setup import steps

_JARS = "/usr/share/java"


@dataclass(frozen=True)
class Need:
    """A Debian package and how to see that what it brings is there.

    `probe` is a command's name, or a file pattern when it begins with a slash.
    """

    package: str
    probe: str

    def met(self) -> bool:
        """Whether what the package brings is there."""
        if self.probe.startswith("/"):
            return any(Path("/").glob(self.probe.lstrip("/")))
        return shutil.which(self.probe) is not None


def _python_needs() -> tuple[Need, ...]:
    include, library = sysconfig.get_path("include"), sysconfig.get_path("stdlib")
    return (
        Need("python3-venv", f"{library}/ensurepip/__main__.py"),
        Need("python3-dev", f"{include}/Python.h"),
    )


FOR_RUN = (
    *_python_needs(),
    Need("gcc", "gcc"),
    Need("libc6-dev", "/usr/include/stdio.h"),
    Need("libgmp-dev", "/usr/include/**/gmp.h"),
    Need("libssl-dev", "/usr/include/openssl/ssl.h"),
    Need("openjdk-17-jre-headless", "java"),
    Need("activemq", "/usr/share/activemq/lib/activemq-stomp.jar"),
    Need("libxstream-java", f"{_JARS}/xstream.jar"),
    Need("libjettison-java", f"{_JARS}/jettison.jar"),
    Need("libmqtt-client-java", f"{_JARS}/mqtt-client.jar"),
    Need("libhawtdispatch-java", f"{_JARS}/hawtdispatch.jar"),
    Need("procps", "ps"),
    Need("nodejs", "node"),
    Need("npm", "npm"),
)
"""What `make run` needs. Spark's start script calls `ps`."""

FOR_TESTS = (
    Need("postgresql", "/usr/lib/postgresql/*/bin/initdb"),
    Need("libpostgresql-jdbc-java", f"{_JARS}/postgresql.jar"),
    Need("redis-server", "redis-server"),
    Need("chromium", "chromium"),
    Need("fonts-dejavu-core", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"),
)
"""What `make test` needs beside."""


def missing(needs: Sequence[Need]) -> list[str]:
    """The names of the packages whose content is not there."""
    return [need.package for need in needs if not need.met()]


def install(root: Path, *, for_tests: bool) -> None:
    """Install what is missing, without recommended packages; LocalError says what to do if not."""
    names = missing((*FOR_RUN, *FOR_TESTS) if for_tests else FOR_RUN)
    if not names:
        return
    steps.say(f"Debian packages missing: {' '.join(names)}")
    # In one step: a list that could not be fetched matters only when a package is then not found.
    # Nothing that Debian starts by itself is used: the product runs private instances.
    script = 'apt-get -q -y update; exec apt-get -q -y install --no-install-recommends "$@"'
    shell = ["env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script, "sh", *names]
    steps.run(root, "packages", [*_as_root(names), *shell])
    still = missing([need for need in (*FOR_RUN, *FOR_TESTS) if need.package in names])
    if still:
        raise LocalError(
            f"these packages were installed but what they bring was not found: {' '.join(still)}. "
            "This set-up knows Debian 12; on another system install the same by hand."
        )


def _as_root(names: Sequence[str]) -> list[str]:
    command = f"apt-get install --no-install-recommends {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise LocalError(
            f"there is no apt-get here. Install what these Debian packages bring: {' '.join(names)}"
        )
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        raise LocalError(f"you are not root and there is no sudo. As root, run: {command}")
    steps.say("(sudo may ask for your password)")
    return ["sudo"]
