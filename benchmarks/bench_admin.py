"""The administration model on PostgreSQL: lists, details, access, explanations and plans.

1,000 domains with 10 roles, 10 event types, 100 policies and 100 principals each, and one domain
with 10,000 roles and 100,000 principals by itself. Each question goes through the application as a
program's would, in one process. Beside it stands what the rows alone cost: the same rows by one
query, or the same question answered by evaluating each policy for each principal.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.tables import human, table, times

FULL = {"domains": 1_000, "roles": 10_000, "types": 10_000, "policies": 100_000,
        "principals": 100_000}  # fmt: skip
QUICK = {"domains": 20, "roles": 200, "types": 200, "policies": 2_000, "principals": 2_000}
ONE = {"domains": 1, "roles": 10_000, "types": 10, "policies": 1_000, "principals": 100_000}
ONE_QUICK = {"domains": 1, "roles": 200, "types": 10, "policies": 50, "principals": 2_000}
LANDMARKS = {"list, API": 0.050, "detail, API": 0.050, "list, page": 0.150, "explain": 0.100,
             "access of one principal": 1.0, "who may read an attribute": 1.0}  # fmt: skip


def main(argv: Sequence[str]) -> None:
    """Run it; the server is stopped whatever happens."""
    parser = argparse.ArgumentParser(prog="bench_admin", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    options = parser.parse_args(argv)
    from tests.support.services import running_postgresql

    with running_postgresql() as server, tempfile.TemporaryDirectory() as var:
        os.environ["PORTCULLIS_ENV"] = "test"
        os.environ["PORTCULLIS_VAR"] = var
        os.environ["PORTCULLIS_API_RATE"] = "1000000/min"
        os.environ["PORTCULLIS_DATABASE_URL"] = server.create("admin")
        os.environ["DJANGO_SETTINGS_MODULE"] = "adminapp.config.settings"
        import django
        from django.core.management import call_command

        django.setup()
        for title, sizes, large in (
            ("spread over domains", QUICK if options.quick else FULL, False),
            ("in one domain", ONE_QUICK if options.quick else ONE, True),
        ):
            call_command("migrate", verbosity=0)
            _measure(title, sizes, quick=options.quick, large=large)
            call_command("flush", verbosity=0, interactive=False)


def _measure(title: str, sizes: dict[str, int], *, quick: bool, large: bool) -> None:
    from benchmarks.organisations import load

    start = time.perf_counter()
    load(**sizes)
    _analyse()
    numbers = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    print(f"\n{numbers} {title}; loaded in {time.perf_counter() - start:.0f} s")
    repeat = 5 if quick else 40
    rows = [
        _row(name, ask, baseline, 3 if name.startswith(("plan", "all access")) else repeat)
        for name, ask, baseline in _questions(sizes, large=large)
    ]
    table(title, ["question", "p50", "p95", "aim p95", "baseline", "ratio"], rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  greatest memory of the process so far: {peak:,.0f} MiB")


def _row(
    name: str, ask: Callable[[int], Any], baseline: Callable[[], Any], repeat: int
) -> list[str]:
    taken = []
    for number in range(repeat):
        start = time.perf_counter()
        ask(number)
        taken.append(time.perf_counter() - start)
    start = time.perf_counter()
    baseline()
    plain = time.perf_counter() - start
    p50 = statistics.median(taken)
    p95 = sorted(taken)[min(len(taken) - 1, int(len(taken) * 0.95))]
    aim = LANDMARKS.get(name)
    return [name, human(p50), human(p95), human(aim) if aim else "", human(plain),
            times(p50 / plain)]  # fmt: skip


def _questions(
    sizes: dict[str, int], *, large: bool
) -> list[tuple[str, Callable[[int], Any], Callable[[], Any]]]:
    from django.test import Client

    from adminapp.identity.models import Domain, Principal, User
    from adminapp.policies.models import Policy

    user = User.objects.create(username="bench", is_superuser=True)
    client = Client()
    client.force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    per_domain = {name: count // sizes["domains"] for name, count in sizes.items()}

    def get(url: str) -> Any:
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.status_code, answer.content[:300])
        return answer

    def domain(number: int) -> str:
        return f"d{number * 7 % sizes['domains']}"

    def policy_rows() -> Any:
        return list(Policy.objects.select_related("domain", "event_type").order_by("id")[:50])

    policy = Policy.objects.first()
    assert policy is not None
    questions: list[tuple[str, Callable[[int], Any], Callable[[], Any]]] = [
        ("list, API", lambda n: get(f"/api/v1/policies?domain={domain(n)}"), policy_rows),
        ("detail, API", lambda n: get(f"/api/v1/policies/{policy.pk + n}"), policy.refresh_from_db),
        ("list, page", lambda n: get(f"/d/{domain(n)}/policies/"), policy_rows),
        (
            "explain",
            lambda n: get(
                f"/api/v1/explain?domain={domain(n)}&principal=p{n % per_domain['principals']}"
                "&action=subscribe&type=T1"
            ),
            lambda: _naive(Domain.objects.get(name="d0"), 1),
        ),
        (
            "access of one principal",
            lambda n: get(f"/api/v1/access?domain={domain(n)}&principal=p{n}&limit=200"),
            lambda: _naive(Domain.objects.get(name="d0"), 1),
        ),
        (
            "who may read an attribute",
            lambda n: get(
                f"/api/v1/access?domain={domain(n)}&type=T1&attribute=level1&action=subscribe"
            ),
            lambda: _naive(Domain.objects.get(name="d0"), min(100, Principal.objects.count())),
        ),
        (
            "access of one principal, nothing kept",
            lambda n: _anew(
                lambda: get(f"/api/v1/access?domain={domain(n)}&principal=p{n}&limit=200")
            ),
            lambda: _naive(Domain.objects.get(name="d0"), 1),
        ),
        (
            "rights of a domain, by policy",
            lambda n: get(f"/api/v1/access/matrix?domain={domain(n)}&limit=200"),
            lambda: _naive(Domain.objects.get(name="d0"), min(100, Principal.objects.count())),
        ),
        (
            "all access read anew",
            lambda n: _anew(lambda: _taken(domain(n))),
            lambda: _naive(Domain.objects.get(name="d0"), min(100, Principal.objects.count())),
        ),
        (
            "all access of a domain",
            lambda n: _whole(domain(n)),
            lambda: _naive(Domain.objects.get(name="d0"), min(100, Principal.objects.count())),
        ),
    ]
    if not large:
        text = _file(1_000 if sizes is FULL else 100, per_domain)
        questions.append(
            (
                f"plan of a file of {text.count(b'object:'):,} objects",
                lambda _n: _plan(user, text),
                policy_rows,
            )
        )
    return questions


def _taken(name: str) -> Any:
    """What everybody may do, ready to be asked."""
    from adminapp.identity.models import Domain
    from adminapp.policies import reach

    return reach.take(Domain.objects.get(name=name))


def _anew(work: Callable[[], Any]) -> Any:
    """Some work as it is after a change: nothing of the domain is kept."""
    from adminapp.policies import remembered

    remembered.forget()
    return work()


def _whole(name: str) -> int:
    """Every line of effective access of a domain, read from the first to the last."""
    from adminapp.identity.models import Domain
    from adminapp.policies import reach

    return sum(1 for _ in reach.take(Domain.objects.get(name=name)).effective())


def _naive(domain: Any, principals: int) -> int:
    """The same question by evaluating every policy for each principal."""
    from adminapp.identity.models import Principal
    from adminapp.policies import selectors
    from adminapp.roles import selectors as roles

    people = list(Principal.objects.filter(domain=domain).order_by("pk")[:principals])
    values = roles.subject_values_of(domain, people)
    spoken = selectors.language(domain)
    rules = [
        selectors.policy_conjunctions(row, spoken=spoken)
        for row in selectors.policies_in_force(domain)
    ]
    return sum(
        any(way.for_subject(dict(variant)) is not None for way in rule)
        for person in people
        for variant in values[person.pk]
        for rule in rules
    )


def _file(count: int, per_domain: dict[str, int]) -> bytes:
    from benchmarks.organisations import expression

    return "".join(
        f"---\nobject: policy\ndomain: d{n % 10}\nname: new {n}\naction: subscribe\n"
        f"event_type: T{n % per_domain['types']}\n"
        f"expression: {expression(n, per_domain['roles'])}\n"
        for n in range(count)
    ).encode()


def _plan(user: Any, text: bytes) -> None:
    from adminapp.changes import files

    found = files.plan(actor=user, files=[("policies.yaml", text)])
    assert not found.problems, found.problems[:3]
    assert len(found.changes) == text.count(b"object:")


def _analyse() -> None:
    """Let the planner know the tables, as autovacuum does on a server that has run for a while."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


if __name__ == "__main__":
    main(sys.argv[1:])
