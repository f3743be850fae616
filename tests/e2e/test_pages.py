"""Every page, in light and dark: no complaint, no outside request, accessible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import AXE, Heard

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = {
    "overview": "/",
    "domains": "/domains/",
    "domain": "/d/flights/",
    "event types": "/d/flights/event-types/",
    "event type": "/d/heating/event-types/WaterTemperature/",
    "event type, edit": "/d/flights/event-types/Flight/edit/",
    "keys": "/d/flights/keys/",
    "policies": "/d/flights/policies/",
    "policy": "/d/flights/policies/p/long delays/",
    "policy, history": "/d/flights/policies/p/long delays/history/",
    "policy, broker": "/d/flights/policies/p/long delays/broker/",
    "policy, edit": "/d/flights/policies/p/long delays/edit/",
    "policy, delete": "/d/flights/policies/p/long delays/delete/",
    "policy, new": "/d/flights/policies/new/",
    "principals": "/d/flights/principals/",
    "principal": "/d/flights/principals/p/UA/",
    "principal, edit": "/d/flights/principals/p/UA/edit/",
    "principal, new": "/d/flights/principals/new/",
    "principal, revoke": "/d/flights/principals/p/UA/revoke/",
    "roles": "/d/heating/roles/",
    "classification": "/d/heating/classification/",
    "splits": "/d/heating/splits/",
    "split": "/d/heating/splits/Consumption/",
    "agents": "/agents/",
    "agent": "/agents/alpha/",
    "agent, revoke": "/agents/alpha/revoke/",
    "enrolment": "/enrolments/",
    "root of trust": "/root/",
    "value, revoke": "/d/flights/revocations/new/?kind=attribute&principal=UA&attribute=carrier",
    "confirm": "/confirm/?next=/agents/",
    "rollouts": "/d/flights/rollouts/",
    "agreements": "/d/flights/agreements/",
    "accepted risks": "/d/heating/risks/",
    "imports": "/d/flights/imports/",
    "change sets": "/d/flights/change-sets/",
    "revocations": "/d/heating/revocations/",
    "no revocations": "/d/flights/revocations/",
    "jobs": "/d/heating/jobs/",
    "audit": "/audit/",
    "audit entry": "/audit/5/",
    "audit chain": "/audit/chain/",
    "settings": "/settings/",
    "search": "/search/?q=flight",
}


GROUPS = [list(PAGES)[start::4] for start in range(4)]


@pytest.mark.parametrize("names", GROUPS, ids=["first", "second", "third", "fourth"])
def test_pages_are_quiet_and_accessible_in_light_and_dark(
    open_as: Callable[..., Page], heard: Heard, names: list[str]
) -> None:
    page = open_as("olga", color_scheme="light")
    for name in names:
        page.emulate_media(color_scheme="light")
        response = page.goto(PAGES[name])
        assert response is not None
        assert response.status == 200, name
        assert page.locator("h1").count() == 1, name
        assert serious_violations(page) == [], name
        assert _overflow(page) <= 0, name
        _darken(page)
        assert contrast_faults(page) == [], name
        assert heard.problems == [], name


def test_the_sign_in_page_is_accessible(open_as: Callable[..., Page]) -> None:
    page = open_as("", color_scheme="light")
    page.goto("/sign-in/")
    assert serious_violations(page) == []
    _darken(page)
    assert contrast_faults(page) == []


def test_a_finished_revocation_shows_its_receipt(open_as: Callable[..., Page]) -> None:
    page = open_as("olga")
    page.goto("/d/heating/revocations/")
    page.get_by_role("link", name="X-104211").click()
    page.get_by_role("heading", name="Revocation of X-104211").wait_for()
    expect(page.get_by_text("Done; the receipt is signed")).to_be_visible()
    expect(page.get_by_text("all confirmed within")).to_be_visible()
    assert serious_violations(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="Download", exact=True).click()
    receipt = download.value.path().read_text()
    assert '"principal"' in receipt
    assert '"X-104211"' in receipt
    assert '"signature"' in receipt
    page.get_by_role("link", name="The job").click()
    page.wait_for_url("**/jobs/**")
    assert serious_violations(page) == []


@pytest.mark.parametrize("address", ["/", "/agents/", "/d/flights/policies/", "/d/flights/keys/"])
def test_a_page_fits_a_telephone(open_as: Callable[..., Page], address: str) -> None:
    page = open_as("olga")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    assert _overflow(page) <= 0
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Revocations").click()
    page.get_by_role("heading", name="Revocations", exact=True).wait_for()


def serious_violations(page: Page) -> list[str]:
    """What axe finds that keeps somebody out."""
    page.evaluate(AXE.read_text())
    return _found(page.evaluate("axe.run(document, {resultTypes: ['violations']})"))


def contrast_faults(page: Page) -> list[str]:
    """The part of it that another theme can change; `serious_violations` was asked before."""
    return _found(page.evaluate("axe.run(document, {runOnly: ['color-contrast']})"))


def _darken(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-bs-theme=dark]")


def _found(found: dict[str, Any]) -> list[str]:
    return [
        f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:300]}"
        for each in found["violations"]
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]


def _overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    root = "document.documentElement"
    return int(page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))
