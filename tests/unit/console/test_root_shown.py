"""The root of trust where operators look: on the overview and beside every agent."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.distribution import roots
from adminapp.distribution.models import Recipient
from adminapp.distribution.roots import RootStanding
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
MADE = "The root of trust is self-made"
ENDS = "The root of trust ends in"


@pytest.fixture
def stands(monkeypatch: pytest.MonkeyPatch, world: World) -> dict[str, RootStanding | None]:
    """What the authority says, to be changed by the test."""
    said: dict[str, RootStanding | None] = {"root": RootStanding(2, self_made=False, days=300.0)}
    monkeypatch.setattr(roots, "standing", lambda: said["root"])
    return said


def test_operators_are_told_of_a_self_made_root_and_of_its_end(
    stands: dict[str, RootStanding | None], browsers: dict[str, Client]
) -> None:
    def shown(root: RootStanding | None, standing: str = "operator") -> str:
        stands["root"] = root
        return browsers[standing].get("/").content.decode()

    assert "The root of trust" not in shown(RootStanding(2, self_made=False, days=300.0))
    assert "The root of trust" not in shown(None)
    own = RootStanding(1, self_made=True, days=300.0)
    assert MADE in shown(own)
    assert "policyctl root init" in shown(own)
    # Nobody else can hold a ceremony.
    assert MADE not in shown(own, "manager")
    late = RootStanding(2, self_made=False, days=40.5)
    assert f"{ENDS} 40 days" in shown(late)
    assert ENDS not in shown(late, "auditor")
    assert "The root of trust has ended" in shown(RootStanding(2, self_made=True, days=-3.0))
    assert MADE in shown(RootStanding(2, self_made=True, days=-3.0))


def test_the_agents_page_says_which_root_each_trusts(
    stands: dict[str, RootStanding | None], world: World, browsers: dict[str, Client]
) -> None:
    operator = browsers["operator"]
    assert "not told" in operator.get("/agents/").content.decode()
    now = timezone.now()
    for agent, root in ((world.alpha, 1), (world.gamma, 2)):
        Recipient.objects.update_or_create(
            audience=f"agent:{agent.name}", domain=world.flights,
            defaults={"root_version": root, "last_seen": now},
        )  # fmt: skip
    text = operator.get("/agents/").content.decode()
    assert "Root of trust 2 is in force" in text
    assert "self-made" not in text
    # alpha alone has not followed.
    assert text.count("of 2: it has not followed yet") == 1
    assert "of 2: it has not followed yet" in operator.get("/agents/alpha/").content.decode()
    assert "has not followed" not in operator.get("/agents/gamma/").content.decode()
    stands["root"] = RootStanding(2, self_made=True, days=300.0)
    assert "self-made, for development only" in operator.get("/agents/").content.decode()
