"""What the charts allow is what the programs need: compared, in both directions, with the calls API servers saw in this run.

These tests come last, so that everything else has been done by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from e2e import channel, identities, programs
from e2e.charts import Doc
from e2e.controlplane.cluster import RunningCluster
from e2e.controlplane.fleet import Federation
from e2e.seldom import SELDOM, reason
from federation.clusters import rights
from machinery import errors
from machinery.kube import KubePort

pytestmark = [pytest.mark.issue(8), pytest.mark.last]

AUDIT_LAG = 2.5
"""Seconds after which the API server has written what it saw."""
WHOLE_RUN = 40
"""Tests from which on a run counts as the whole suite: what fewer do not use may still be needed."""
CHANCE = 5
"""Rights of one program that a run may leave unused by chance: what only a conflict or a lost answer asks for."""
ACCOUNT = "system:serviceaccount:federation-system:"
_RULES = frozenset({"Role", "ClusterRole"})


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource (or its subresource, with a slash)."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}"


def granted(docs: list[Doc]) -> dict[str, set[Right]]:
    """By name of the subject, what roles and their bindings allow."""
    roles = {(doc["kind"], doc["metadata"]["name"]): set(_expanded(doc["rules"])) for doc in docs if doc["kind"] in _RULES}
    found: dict[str, set[Right]] = {}
    for doc in docs:
        for subject in doc.get("subjects") or () if doc["kind"].endswith("RoleBinding") else ():
            found.setdefault(subject["name"], set()).update(roles[doc["roleRef"]["kind"], doc["roleRef"]["name"]])
    return found


def _expanded(rules: list[Doc]) -> Iterator[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (Right(group, resource, verb) for verb in rule["verbs"])


def requests(cluster: RunningCluster, *, user: str) -> Iterator[tuple[Right, bool]]:
    """What a user asked of resources, and whether he was allowed to."""
    with cluster.audit_log.open("rb") as lines:
        for line in lines:
            event = orjson.loads(line)
            where: dict[str, Any] | None = event.get("objectRef")
            decision = (event.get("annotations") or {}).get("authorization.k8s.io/decision")
            if event["user"].get("username") != user or where is None or "resource" not in where or decision is None:
                continue
            resource = "/".join(filter(None, (where["resource"], where.get("subresource"))))
            yield Right(where.get("apiGroup", ""), resource, event["verb"]), decision == "allow"


async def _seen(federation: Federation) -> dict[str, tuple[set[Right], set[Right]]]:
    """By program, what it was allowed and what it was denied, over all clusters."""
    await asyncio.sleep(AUDIT_LAG)
    users = {
        "hub": [(federation.hub, ACCOUNT + programs.HUB)],
        "agent": [(member, ACCOUNT + identities.ACCOUNTS["run"]) for member in federation.members.values()],
        "fencer": [(member, ACCOUNT + identities.ACCOUNTS["fencer"]) for member in federation.members.values()],
        "member": [(federation.hub, name) for name in federation.members],
    }
    found: dict[str, tuple[set[Right], set[Right]]] = {}
    for program, places in users.items():
        allowed, denied = found.setdefault(program, (set(), set()))
        for cluster, user in places:
            for right, was_allowed in requests(cluster, user=user):
                (allowed if was_allowed else denied).add(right)
    return found


def _granted() -> dict[str, set[Right]]:
    hub = granted(identities.objects("federation", values=channel.VALUES))
    member = granted(identities.objects("member-agent", values={"cluster": "east", **channel.VALUES}))
    exchange = granted([{"kind": kind.kind, **body} for kind, body, _ in rights.manifests("east", uid="u")])
    return {
        "hub": hub[programs.HUB],
        "agent": member[identities.ACCOUNTS["run"]],
        "fencer": member[identities.ACCOUNTS["fencer"]],
        "member": exchange[rights.group_of("east")],
    }


async def test_nothing_that_the_programs_need_is_missing_from_the_charts(running: Federation) -> None:
    for program, (allowed, denied) in (await _seen(running)).items():
        missing = sorted(map(str, denied - allowed))  # what was denied once came before the hub had given it
        assert not missing, f"{program} was denied: {', '.join(missing)}"


async def test_nothing_in_the_charts_goes_unused(running: Federation, request: pytest.FixtureRequest) -> None:
    if len(request.session.items) < WHOLE_RUN:
        pytest.skip("only a run of everything uses everything")
    seen, given = await _seen(running), _granted()
    for program, may in given.items():
        known = {right for right in may if reason(program, str(right)) is not None}
        unused = sorted(map(str, may - seen[program][0] - known))
        assert not unused, (
            f"{program} may, and never did: {', '.join(unused)}; take it away or say in e2e/seldom.py what it is for"
        )


async def test_what_is_said_to_be_seldom_is_given(running: Federation) -> None:
    given = _granted()
    stale = [
        f"{program}: {pattern}"
        for program, pattern in SELDOM
        if not any(fnmatchcase(str(right), pattern) for right in given[program])
    ]
    assert not stale


async def test_an_agent_reaches_nothing_of_another_member_and_nothing_of_tenants(running: Federation, namespace: str) -> None:
    port = await KubePort.from_kubeconfig(str(programs.identity(running, programs.agent_name("east"), side="hub")))
    west = keys.execution_namespace("west")
    try:
        await port.list(kinds.WORK, namespace=keys.execution_namespace("east"))
        for kind, where in (
            (kinds.WORK, west),
            (kinds.WORK, None),
            (kinds.CLUSTER_CAPACITY, west),
            (kinds.JOB, namespace),
            (kinds.JOB_FLOW, namespace),
            (kinds.SECRET, namespace),
            (kinds.SECRET, keys.execution_namespace("east")),
            (kinds.RESOURCE_BINDING, namespace),
            (kinds.CLUSTER, None),
        ):
            with pytest.raises(errors.Forbidden):
                await port.list(kind, namespace=where)
        with pytest.raises(errors.Forbidden):
            await port.get(kinds.CLUSTER, "west")
        with pytest.raises(errors.Forbidden):
            await port.get(kinds.LEASE, keys.MEMBER_LEASE, namespace=west)
        with pytest.raises(errors.Forbidden):
            await port.create(kinds.CLUSTER, {"metadata": {"name": "another"}, "spec": {"id": "x", "syncMode": "Pull"}})
    finally:
        await port.close()
