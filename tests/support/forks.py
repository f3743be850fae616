"""Running something in forked children, as Celery's workers do.

A plain fork and nothing else: `multiprocessing` ends its pools by a signal that other tests of
the same process may have taken over.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections.abc import Callable
from typing import Any


def forked(work: Callable[[], Any], *, seconds: float = 60) -> Any:
    """Run `work` in a forked child and return what it returned.

    Raises:
        AssertionError: the child failed or did not end in time.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(work(), pipe)
        finally:
            os._exit(0)  # nothing of the parent's is to be tidied up here
    os.close(writer)
    try:
        data = b""
        while select.select([reader], [], [], seconds)[0]:
            piece = os.read(reader, 65_536)
            if not piece:
                break
            data += piece
        assert data, "the forked child failed or did not end in time"
        return pickle.loads(data)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
