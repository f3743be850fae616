"""What every page has in common: who may open it, its place in the navigation, its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from adminapp.console import access
from adminapp.identity import permissions
from adminapp.identity.models import Domain

View = Callable[..., HttpResponse]


@dataclass(frozen=True)
class Crumb:
    """One step of the breadcrumbs; without an address it is the page itself."""

    title: str
    url: str = ""


@dataclass(frozen=True)
class Item:
    """One entry of the navigation; `scoped` ones exist once a domain."""

    area: str
    title: str
    icon: str
    scoped: bool = False
    key: str = ""
    url: str = ""


@dataclass(frozen=True)
class Group:
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Choice:
    """A domain in the switcher."""

    name: str
    title: str
    url: str


@dataclass
class Page:
    """What the frame around a page shows."""

    title: str
    area: str
    question: str = ""
    domain: Domain | None = None
    current_domain: Domain | None = None
    domains: Sequence[Choice] = ()
    navigation: Sequence[Group] = ()
    crumbs: Sequence[Crumb] = ()
    standing: str = ""
    live: bool = False
    may_change: bool = False
    search: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)


NAVIGATION = (
    Group("", (Item("overview", "Overview", "layout-dashboard", key="o"),)),
    Group(
        "Model",
        (
            Item("domains", "Domains", "building"),
            Item("event-types", "Event types", "binary-tree", scoped=True),
            Item("keys", "Keys and trust groups", "key", scoped=True),
        ),
    ),
    Group(
        "Access",
        (
            Item("policies", "Policies", "shield-check", scoped=True, key="p"),
            Item("principals", "Principals", "users", scoped=True),
            Item("roles", "Roles", "id-badge-2", scoped=True),
        ),
    ),
    Group(
        "Privacy",
        (
            Item("classification", "Classification", "tags", scoped=True),
            Item("splits", "Split over overlays", "git-compare", scoped=True),
            Item("risks", "Accepted risks", "alert-triangle", scoped=True),
        ),
    ),
    Group("Federation", (Item("agreements", "Agreements", "link", scoped=True),)),
    Group(
        "Operations",
        (
            Item("agents", "Agents", "server", key="a"),
            Item("enrolments", "Enrolment", "fingerprint"),
            Item("root", "Root of trust", "file-certificate"),
            Item("rollouts", "Rollouts", "arrow-right", scoped=True),
            Item("revocations", "Revocations", "user-off", scoped=True, key="r"),
            Item("jobs", "Jobs", "activity", scoped=True),
        ),
    ),
    Group(
        "Governance",
        (
            Item("change-sets", "Change sets", "list-check", scoped=True, key="c"),
            Item("audit", "Audit", "report-search"),
        ),
    ),
    Group("", (Item("settings", "Settings", "settings"),)),
)


def visible_domain_names(user: Any) -> frozenset[str]:
    """The names of the domains that a user may see."""
    return frozenset(Domain.objects.visible_to(user).values_list("name", flat=True))


def signed_in(view: View) -> View:
    """Anonymous callers go to the sign-in page; a part of a page takes the whole page there."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if not request.htmx:
            return HttpResponseRedirect(_sign_in(request.get_full_path()))
        response = HttpResponse(status=204)
        response["HX-Redirect"] = _sign_in(request.htmx.current_url_abs_path or "/")
        return response

    return checked


def in_domain(view: View) -> View:
    """The view gets the domain of the address; one that the user may not see does not exist."""

    @signed_in
    @wraps(view)
    def checked(request: HttpRequest, domain: str, *args: Any, **kwargs: Any) -> HttpResponse:
        visible = Domain.objects.visible_to(request.user).select_related("parent")
        found = get_object_or_404(visible, name=domain)
        if request.session.get("domain") != found.name:
            request.session["domain"] = found.name
        return view(request, found, *args, **kwargs)

    return checked


def managers_only(view: View) -> View:
    """For views under `in_domain` that change something: those who only read are refused."""

    @wraps(view)
    def checked(request: HttpRequest, domain: Domain, *args: Any, **kwargs: Any) -> HttpResponse:
        if not access.may_change(request.user, domain):
            raise PermissionDenied(f"only managers of {domain.title or domain.name} may do this")
        return view(request, domain, *args, **kwargs)

    return checked


def operators_only(view: View) -> View:
    """For views under `signed_in` that are the operators'."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not permissions.is_operator(request.user):
            raise PermissionDenied("only operators may do this")
        return view(request, *args, **kwargs)

    return checked


def show(
    request: HttpRequest,
    template: str,
    *,
    title: str,
    area: str,
    question: str = "",
    domain: Domain | None = None,
    trail: Iterable[Crumb] = (),
    live: bool = False,
    parts: Mapping[str, str] | None = None,
    search: str = "",
    status: int = 200,
    **context: Any,
) -> HttpResponse:
    """Render a page, or only the part of it that `?part=` names.

    Args:
        trail: breadcrumbs between the area and the page itself.
        parts: name of a part -> template; a part's request gets that template alone.
    """
    part = (parts or {}).get(request.GET.get("part", "")) if request.htmx else None
    if "part" in request.GET:
        # Links of a list repeat the address that they stand in; a part is no page.
        request.GET = request.GET.copy()
        del request.GET["part"]
    page = _page(
        request,
        title=title,
        area=area,
        question=question,
        domain=domain,
        trail=tuple(trail),
        live=live,
    )
    page.search = search
    context = {"page": page, "domain": domain, **context}
    response = render(request, part or template, context, status=status)
    response["Cache-Control"] = "no-store"
    if live:
        response["Vary"] = "HX-Request"
    return response


def _sign_in(back: str) -> str:
    return f"{reverse(settings.LOGIN_URL) if ':' in settings.LOGIN_URL else settings.LOGIN_URL}" + (
        f"?{urlencode({'next': back})}" if back != "/" else ""
    )


def _page(
    request: HttpRequest,
    *,
    title: str,
    area: str,
    question: str,
    domain: Domain | None,
    trail: tuple[Crumb, ...],
    live: bool,
) -> Page:
    domains = list(Domain.objects.visible_to(request.user))
    current = domain or _last_used(request, domains)
    return Page(
        title=title,
        area=area,
        question=question,
        domain=domain,
        current_domain=current,
        domains=_choices(area, domains),
        navigation=_navigation(current),
        crumbs=_crumbs(title, area, domain, trail),
        standing=access.standing(request.user, domain),
        live=live,
        may_change=domain is not None and access.may_change(request.user, domain),
    )


def _last_used(request: HttpRequest, domains: list[Domain]) -> Domain | None:
    wanted = request.session.get("domain")
    return next((d for d in domains if d.name == wanted), domains[0] if domains else None)


def _choices(area: str, domains: Sequence[Domain]) -> list[Choice]:
    """Where the same area of each domain is; addresses of domains differ in the name alone."""
    if not domains:
        return []
    first = domains[0]
    home = reverse("console:domain", args=[first.name])
    root = home.removesuffix(f"{first.name}/")
    within = _address(area, first).removeprefix(home)
    return [Choice(d.name, d.title, f"{root}{d.name}/{within}") for d in domains]


def _items() -> dict[str, Item]:
    return {item.area: item for group in NAVIGATION for item in group.items}


def _address(area: str, domain: Domain | None) -> str:
    """Where an area is; an area of the whole platform leads to the domain's own page instead."""
    item = _items().get(area)
    if item is not None and item.scoped and domain is not None:
        return reverse(f"console:{area}", args=[domain.name])
    if domain is not None:
        return reverse("console:domain", args=[domain.name])
    return reverse(f"console:{area}")


def _navigation(domain: Domain | None) -> list[Group]:
    def placed(item: Item) -> Item:
        if item.scoped and domain is not None:
            url = reverse(f"console:{item.area}", args=[domain.name])
        else:
            url = reverse(f"console:{item.area}")
        return Item(item.area, item.title, item.icon, item.scoped, item.key, url)

    groups = []
    for group in NAVIGATION:
        items = tuple(placed(i) for i in group.items if domain is not None or not i.scoped)
        if items:
            groups.append(Group(group.title, items))
    return groups


def _crumbs(title: str, area: str, domain: Domain | None, trail: tuple[Crumb, ...]) -> list[Crumb]:
    crumbs = []
    item = _items().get(area)
    if domain is not None and item is not None and item.scoped:
        crumbs.append(
            Crumb(domain.title or domain.name, reverse("console:domain", args=[domain.name]))
        )
    if item is not None and item.title != title and area != "overview":
        url = (
            reverse(f"console:{area}", args=[domain.name])
            if item.scoped and domain is not None
            else reverse(f"console:{area}")
        )
        crumbs.append(Crumb(item.title, url))
    return [*crumbs, *trail, Crumb(title)]
