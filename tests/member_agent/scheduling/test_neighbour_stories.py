"""Gangs that keep apart and spread, told with the whole member: from the Work to the nodes of its pods."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from apis import kinds
from machinery.port import PatchType
from simulator.nodes import uniform
from simulator.world import Member
from tests.member_agent.world import EAST, Stage, job, play

Doc = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def zoned(*zones: str) -> Member:
    """A member with one node per zone named."""
    machines = uniform("node", len(zones), cpu="8")
    named = [dataclasses.replace(each, labels={"zone": zone}) for each, zone in zip(machines, zones, strict=True)]
    return Member(nodes=tuple(named), settings={})


def labelled(manifest: Doc, spec: Doc) -> Doc:
    """The Job with app=web on its pods, and more in their spec."""
    for task in manifest["spec"]["tasks"]:
        template = task["template"]
        template["metadata"] = {"labels": {"app": "web"}}
        template["spec"] |= spec
    return manifest


WEB = {"matchLabels": {"app": "web"}}
APART = {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": WEB}]}}}
EVEN = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    ]
}


async def submit(stage: Stage, manifest: Doc) -> None:
    """At the member itself: what comes from the hub and finds no place at once is refused instead."""
    await stage.world.client(EAST).create(kinds.JOB, manifest, namespace="default")


def zones_of(stage: Stage, name: str) -> dict[str, int]:
    nodes = {each["metadata"]["name"]: each["metadata"]["labels"]["zone"] for each in stage.world.all(kinds.NODE, server=EAST)}
    return dict(Counter(nodes[pod["spec"]["nodeName"]] for pod in stage.pods(name) if pod["spec"].get("nodeName")))


def waits(stage: Stage, name: str) -> str:
    """Why the Job's gang waits."""
    for group in stage.world.all(kinds.POD_GROUP, server=EAST):
        if group["metadata"]["name"].startswith(name):
            listed = (group.get("status") or {}).get("conditions") or []
            return next(
                (each["message"] for each in listed if each["type"] == "Unschedulable" and each["status"] == "True"), ""
            )
    return ""


def test_a_gang_keeps_apart_by_zone_and_the_next_waits_until_a_zone_is_free() -> None:
    async def story(stage: Stage) -> None:
        await stage.grant(labelled(job("first", replicas=2, command="sleep 60"), APART))
        await stage.until(lambda: len(stage.running("first")) == 2, what="the first gang runs")
        assert sorted(zones_of(stage, "first").values()) == [1, 1]
        await submit(stage, labelled(job("second", replicas=2, command="sleep 5"), APART))
        await stage.until(lambda: "ruled out by anti-affinity" in waits(stage, "second"), what="the second gang says why")
        assert stage.running("second") == []
        await stage.until(lambda: stage.phase("second") == "Completed", timeout=300, what="it starts when the first has ended")

    play(story, member=zoned("a", "a", "b", "c"))


def test_a_gang_spreads_over_zones() -> None:
    async def story(stage: Stage) -> None:
        await stage.grant(labelled(job("even", replicas=7, command="sleep 60"), EVEN))
        await stage.until(lambda: len(stage.running("even")) == 7)
        assert sorted(zones_of(stage, "even").values()) == [2, 2, 3]

    play(story, member=zoned("a", "a", "b", "c"))


def test_labels_of_a_namespace_decide_who_is_kept_away_from() -> None:
    red = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "red"}}}
    away = {"affinity": {"podAntiAffinity": {REQUIRED: [red]}}}

    async def story(stage: Stage) -> None:
        port = stage.world.client(EAST)
        await port.create(kinds.NAMESPACE, {"metadata": {"name": "reds", "labels": {"team": "red"}}})
        container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", "sleep 600"]}
        body = {"metadata": {"name": "there"}, "spec": {"nodeName": "node-0", "containers": [container]}}
        await port.create(kinds.POD, body, namespace="reds")
        await submit(stage, labelled(job("shy", replicas=1, command="sleep 60"), away))
        await stage.until(lambda: "ruled out by anti-affinity" in waits(stage, "shy"), what="it waits")
        patch = {"metadata": {"labels": {"team": None}}}
        await port.patch(kinds.NAMESPACE, "reds", patch, type=PatchType.MERGE)
        await stage.until(lambda: len(stage.running("shy")) == 1, what="it starts beside those who are no reds any more")

    play(story, member=zoned("a"))
