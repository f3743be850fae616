"""How ActiveMQ's JVM is called: class path, memory, properties."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tasks.local.errors import LocalError

ACTIVEMQ_HOME = Path("/usr/share/activemq")
JVMS = Path("/usr/lib/jvm")
_JAVA_LIBRARIES = Path("/usr/share/java")
# Debian's ActiveMQ only suggests these; without them statistics replies to STOMP clients get lost.
_EXTRA_JARS = ("xstream.jar", "jettison.jar", "mqtt-client.jar", "hawtdispatch.jar")
HEAP_MB = 160
"""Enough for the agents and clients of one machine; some hundred connections need more."""
_MEMORY = ("-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def find_java() -> str:
    """The path of `java`; LocalError that says what to install when there is none."""
    found = shutil.which("java")
    if found:
        return found
    for candidate in sorted(JVMS.glob("java-*-openjdk-*/bin/java"), reverse=True):
        return str(candidate)
    raise LocalError(
        "Java was not found. Install it with `apt-get install openjdk-17-jre-headless`, "
        "or run `make setup`, which does that."
    )


def class_path() -> str:
    """ActiveMQ's jars and what STOMP needs beside them; LocalError when ActiveMQ is missing."""
    library = ACTIVEMQ_HOME / "lib"
    jars = [*sorted(library.glob("*.jar")), *sorted((library / "optional").glob("*.jar"))]
    if not jars:
        raise LocalError(
            "ActiveMQ was not found. Install it with `apt-get install activemq`, "
            "or run `make setup`, which does that."
        )
    jars += [jar for name in _EXTRA_JARS if (jar := _JAVA_LIBRARIES / name).exists()]
    return ":".join(map(str, jars))


def command(folder: Path, *, heap_mb: int = HEAP_MB) -> list[str]:
    """The argument vector that runs the broker configured in `folder` in the foreground."""
    properties = {
        "activemq.home": ACTIVEMQ_HOME,
        "activemq.base": folder,
        "activemq.conf": folder,
        "activemq.data": folder / "data",
        "java.io.tmpdir": folder / "tmp",
        "java.security.auth.login.config": folder / "login.config",
        "log4j.configuration": (folder / "log4j.properties").as_uri(),
        "java.awt.headless": "true",
    }
    return [
        find_java(),
        *_MEMORY,
        f"-Xmx{heap_mb}m",
        "-cp",
        class_path(),
        *(f"-D{key}={value}" for key, value in properties.items()),
        "org.apache.activemq.console.command.ShellCommand",
        "start",
        f"xbean:{(folder / 'activemq.xml').as_uri()}",
    ]


def environment() -> dict[str, str]:
    """The JVM's environment: no options from outside, which could open ports or agents."""
    dropped = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"}
    return {key: value for key, value in os.environ.items() if key not in dropped}
