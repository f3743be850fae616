"""How much a domain may hold, where it stands, and which changes of it wait for somebody else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from adminapp.catalog import services as catalog
from adminapp.core.errors import Forbidden, Invalid, OverQuota
from adminapp.identity import kinds, lineage, quotas, services
from adminapp.identity.models import Domain, Principal, User
from tests.support.control_plane import World

API = "/api/v1"
BACKEND = "adminapp.identity.backends.ThrottledBackend"


def limit(world: World, **values: int | None) -> Domain:
    return services.update_domain(actor=world.operator, domain=world.flights, data=values)


def fresh(world: World) -> Domain:
    return Domain.objects.get(pk=world.flights.pk)


def add(world: World, name: str) -> Principal:
    return services.create_principal(
        actor=world.manager, domain=world.flights, name=name, kind="person"
    )


def test_principals_up_to_the_limit_and_none_beyond(world: World) -> None:
    limit(world, max_principals=3)
    add(world, "third")
    with pytest.raises(OverQuota, match="`flights` may have 3 principals"):
        add(world, "fourth")
    assert Principal.objects.filter(domain=world.flights).count() == 3
    limit(world, max_principals=None)
    add(world, "fourth")


def test_room_that_was_given_back_is_there_again(world: World) -> None:
    limit(world, max_principals=3)
    for number in range(5):
        row = add(world, f"p{number}")
        services.mark_revoked(actor=world.manager, principal=row)
        if number % 2:
            services.delete_principal(actor=world.manager, principal=row)
    add(world, "last")
    with pytest.raises(OverQuota):
        add(world, "one more")


def test_what_went_with_others_is_counted_before_anybody_is_refused(world: World) -> None:
    limit(world, max_principals=3)
    add(world, "third")
    Principal.objects.filter(name="third").delete()
    assert fresh(world).principal_count == 3
    add(world, "another")
    assert fresh(world).principal_count == 3


def test_objects_of_all_kinds_count(world: World) -> None:
    held = quotas.usage(world.flights)
    assert held.principals.used == 2
    assert held.objects.used == sum(
        number for kind, number in held.by_kind.items() if kind != "principal"
    )
    limit(world, max_objects=held.objects.used + 1)
    catalog.create_attribute_key(actor=world.manager, domain=world.flights, name="crew")
    if "attribute-key" in kinds.names():
        with pytest.raises(OverQuota, match="objects"):
            catalog.create_subject_attribute(
                actor=world.manager, domain=world.flights, name="hub", type={"type": "string"}
            )


def test_counting_costs_no_query_a_kind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    add(world, "first")
    with CaptureQueriesContext(connection) as few:
        add(world, "second")
    dear = replace(kinds.kind("domain"), name="thing", documents=pytest.fail)
    monkeypatch.setitem(kinds._kinds, "thing", dear)
    with CaptureQueriesContext(connection) as still:
        add(world, "third")
    assert len(few) == len(still)


def test_only_operators_set_quotas(world: World) -> None:
    for name in ("max_objects", "max_principals", "requests_per_minute"):
        with pytest.raises(Forbidden):
            services.update_domain(
                actor=world.manager, domain=world.flights, data={name: 1_000_000}
            )
    services.update_domain(actor=world.manager, domain=world.flights, data={"approval": "always"})
    assert fresh(world).approval == "always"


@pytest.mark.parametrize(
    ("field", "value"),
    [("approval", "perhaps"), ("max_objects", -1), ("requests_per_minute", 0)],
)
def test_what_a_domain_cannot_be(field: str, value: object, world: World) -> None:
    with pytest.raises(Invalid) as failure:
        limit(world, **{field: value})
    assert failure.value.problems[0].pointer == f"/{field}"
    with pytest.raises(IntegrityError), transaction.atomic():
        Domain.objects.filter(pk=world.flights.pk).update(**{field: value})


def test_quotas_are_no_business_of_agents(world: World) -> None:
    before = fresh(world).revision
    limit(world, max_objects=5000)
    assert fresh(world).revision == before
    services.update_domain(actor=world.operator, domain=world.flights, data={"lease_seconds": 60})
    assert fresh(world).revision == before + 1


def test_no_domain_below_itself(world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Domain.objects.filter(pk=world.flights.pk).update(parent=world.flights)
    below = world.flights
    for number in range(lineage.MAX_DEPTH - 1):
        below = services.create_domain(
            actor=world.operator, name=f"d{number}", title="D", parent=below
        )
    with pytest.raises(Invalid, match="16 deep") as failure:
        services.create_domain(actor=world.operator, name="deep", title="D", parent=below)
    assert failure.value.problems[0].pointer == "/parent"
    with pytest.raises(Invalid, match="16 deep"):
        services.update_domain(
            actor=world.operator, domain=world.flights, data={"parent": world.heating}
        )
    with pytest.raises(Invalid, match="below itself") as failure:
        services.update_domain(actor=world.operator, domain=world.flights, data={"parent": below})
    assert failure.value.problems[0].pointer == "/parent"


def test_a_domain_that_moves_takes_those_below_along(world: World) -> None:
    child = services.create_domain(
        actor=world.operator, name="child", title="C", parent=world.flights
    )
    before = Domain.objects.get(pk=child.pk).revision
    services.update_domain(
        actor=world.operator, domain=world.flights, data={"parent": world.heating}
    )
    assert Domain.objects.get(pk=child.pk).revision == before + 1


# -- REST ------------------------------------------------------------------------------------


def test_usage_is_seen_by_members(
    world: World, browsers: dict[str, Client], delegate: User
) -> None:
    browsers["delegate"] = Client()
    browsers["delegate"].force_login(delegate, backend=BACKEND)
    limit(world, max_principals=7)
    url = f"{API}/domains/{world.flights.pk}/usage"
    codes = {name: browser.get(url).status_code for name, browser in browsers.items()}
    assert codes == {
        "anonymous": 401,
        "operator": 200,
        "manager": 200,
        "auditor": 200,
        "delegate": 200,
        "stranger": 404,
    }
    shown = browsers["auditor"].get(url).json()
    assert shown["principals"] == {"used": 2, "limit": 7}
    assert shown["objects"]["limit"] == 1_000_000
    assert shown["requests"]["limit"] == 6000
    assert shown["by_kind"]["principal"] == 2


def test_quotas_over_rest(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/domains/{world.flights.pk}"
    shown = browsers["manager"].get(url)
    tag = {"If-Match": shown["ETag"]}
    assert shown.json()["max_objects"] is None
    body = {"max_principals": 2}
    for name, code in (("auditor", 403), ("stranger", 404), ("manager", 403), ("operator", 200)):
        answer = browsers[name].patch(url, body, "application/json", headers=tag)
        assert answer.status_code == code, name
    # What a manager read may be sent back as it was.
    held = browsers["manager"].get(url)
    again = browsers["manager"].put(
        url,
        {**held.json(), "title": "New"},
        "application/json",
        headers={"If-Match": held["ETag"]},
    )
    assert (again.status_code, again.json()["max_principals"]) == (200, 2)
    refused = browsers["manager"].post(
        f"{API}/principals",
        {"domain": "flights", "name": "More", "kind": "person"},
        "application/json",
    )
    assert refused.status_code == 403
    assert refused.json()["type"] == "urn:portcullis:problem:quota"
    assert "2 principals" in refused.json()["detail"]


def test_calls_are_counted_by_domain(
    world: World, browsers: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "adminapp.api.throttling.time", SimpleNamespace(time=lambda: 1_700_000_030.0)
    )
    limit(world, requests_per_minute=3)
    url = f"{API}/domains/{world.flights.pk}"
    listed = f"{API}/principals?domain=flights"
    manager, operator = browsers["manager"], browsers["operator"]
    assert [browsers["stranger"].get(listed).status_code for _ in range(5)] == [200] * 5
    assert [manager.get(url).status_code, manager.get(listed).status_code] == [200, 200]
    created = manager.post(
        f"{API}/principals", {"domain": "flights", "name": "X", "kind": "person"},
        "application/json",
    )  # fmt: skip
    assert created.status_code == 201
    for answer in (manager.get(url), manager.get(listed), browsers["auditor"].get(url)):
        assert answer.status_code == 429
        assert 0 < int(answer["Retry-After"]) <= 61
        assert "3 calls" in answer.json()["detail"]
    assert operator.get(url).status_code == 200
    used = operator.get(f"{url}/usage").json()["requests"]
    assert used["limit"] == 3
    assert used["used"] >= 3
    assert browsers["stranger"].get(f"{API}/domains/{world.heating.pk}").status_code == 200


def test_domains_are_filtered(world: World, browsers: dict[str, Client]) -> None:
    services.create_domain(actor=world.operator, name="child", title="C", parent=world.flights)

    def names(**query: str) -> list[str]:
        found = browsers["operator"].get(f"{API}/domains", query).json()["results"]
        return sorted(each["name"] for each in found)

    assert names(parent="flights") == ["child"]
    assert names(root="true") == ["flights", "heating"]
    assert names(name="heat") == ["heating"]
