"""The audit shows what the authority answered, whole and in order, and sees another history."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adminapp.audit.answers import ANSWERED, BATCH, BROKEN, take_answers
from adminapp.audit.models import Entry
from adminapp.core.authority import AuthorityClient, AuthorityError
from policyengine.bundles import contexts
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import create_state, load_state

pytestmark = pytest.mark.django_db
BEGUN = time.time()


def stopped() -> float:
    """A clock that stands: no minute ends by itself, however long a test takes."""
    return BEGUN


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AuthorityServer]:
    state = create_state(tmp_path / "state", SYSTEM_RANDOM)
    operations = Operations(state, now=stopped)
    made = AuthorityServer(tmp_path / "run" / "authority.sock", operations)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def client(server: AuthorityServer) -> Iterator[AuthorityClient]:
    made = AuthorityClient(server.path)
    yield made
    made.close()


def answers() -> list[dict[str, Any]]:
    rows = Entry.objects.filter(action=ANSWERED).order_by("sequence")
    return [each for row in rows for each in row.after["answers"]]


def test_every_answer_comes_once_refusals_too(client: AuthorityClient) -> None:
    wrapped = client.create_key("tag:heating:a:1")
    with pytest.raises(AuthorityError):
        client.unwrap("key:heating:a:1", wrapped)
    assert take_answers(authority=client) == 3
    assert take_answers(authority=client) == 0
    told = [(each["op"], each.get("outcome"), each.get("key_id")) for each in answers()]
    assert told == [
        ("journal.opened", None, None),
        ("create_key", "done", "tag:heating:a:1"),
        ("unwrap", "refused", "key:heating:a:1"),
    ]
    row = Entry.objects.get(action=ANSWERED)
    head = client.journal_head()
    assert (row.after["size"], row.after["digest"]) == (head.size, head.digest)
    for _ in range(2 * BATCH):
        client.create_key("tag:heating:a:2")
    assert take_answers(authority=client) == 2 * BATCH
    assert [each["n"] for each in answers()] == [*range(1, 2 * BATCH + 4)]


def test_leases_and_checkpoints_alone_wait_for_more(
    client: AuthorityClient, server: AuthorityServer
) -> None:
    take_answers(authority=client)
    client.sign("lease", contexts.LEASE, b'{"audience":"agent:alpha"}')
    server.operations._tally.turn(force=True)
    assert take_answers(authority=client) == 0
    client.create_key("tag:heating:a:1")
    assert take_answers(authority=client) == 2
    assert answers()[-2]["answers"]["lease agent:alpha"] == 1


def _begun_anew(folder: Path, place: Path) -> Operations:
    """The same keys, without a word of what was answered."""
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("journal", "fence"))
    return Operations(load_state(place), now=stopped)


def test_another_history_is_written_down_and_followed_from_there(
    client: AuthorityClient, server: AuthorityServer, tmp_path: Path
) -> None:
    for number in range(3):
        client.create_key(f"tag:heating:a:{number}")
    take_answers(authority=client)
    # Restored from before, or begun anew by whoever took it.
    first = server.operations._state.folder
    server.operations = _begun_anew(first, tmp_path / "anew")
    client.create_key("tag:heating:b:1")
    assert take_answers(authority=client) == 0
    broken = Entry.objects.get(action=BROKEN)
    assert broken.after["expected"]["size"] == 4
    assert broken.after["size"] == 2
    client.create_key("tag:heating:b:2")
    assert take_answers(authority=client) == 1
    assert answers()[-1]["key_id"] == "tag:heating:b:2"
    # As long as the other one was, and not the same.
    server.operations = _begun_anew(first, tmp_path / "third")
    for number in range(4):
        client.create_key(f"tag:heating:c:{number}")
    assert take_answers(authority=client) == 2
    assert Entry.objects.filter(action=BROKEN).count() == 2
    assert answers()[-1]["key_id"] == "tag:heating:c:3"


def test_a_client_that_nobody_holds_lets_go_of_its_connection(server: AuthorityServer) -> None:
    """As when more authorities were asked in one process than are kept in mind."""
    made = AuthorityClient(server.path)
    made.anchors()
    connection = made._connection
    assert connection is not None
    assert connection.fileno() >= 0
    del made
    assert connection.fileno() == -1
