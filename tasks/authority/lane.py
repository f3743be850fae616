"""Where the heavy work is done: attribute-based encryption, beside the process that signs.

Making a client's keys takes tens of milliseconds of one core, and a lease must never wait for
it. So the work goes to a process of its own, through a pipe; it ends with the authority.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tasks.authority import blindwork
from tasks.authority.program import Program, serve

Lane: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""Does a piece of work, by name, with fields of plain JSON."""
WORK: Final[dict[str, Callable[..., Any]]] = {
    "master": blindwork.master,
    "enrol": blindwork.enrol,
    "filter": blindwork.narrowed,
}
SECONDS: Final = 300.0


def work_here(name: str, fields: Mapping[str, Any]) -> Any:
    """Do it in this process."""
    return WORK[name](**fields)


def work_beside() -> Lane:
    """A lane that does it in another process, which is started with the first piece of work."""
    program = Program([sys.executable, "-m", "tasks.authority.lane"], seconds=SECONDS)

    def lane(name: str, fields: Mapping[str, Any]) -> Any:
        return program.ask(name, **fields)

    return lane


if __name__ == "__main__":
    serve(WORK, sys.stdin.buffer, sys.stdout.buffer)
