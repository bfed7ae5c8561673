"""Scenario files: a story in YAML, played on a world.

    story: what it shows, in one sentence
    given:
      clusters: {east: {cpu: 8}, west: {cpu: 8, nodes: 2}}     # cpu and memory of each node; 1 node unless said otherwise
      queues:   {research: {weight: 1}}                        # specs of Queues
    steps:                                                     # one verb each, then what must come true within `within`
      - submit: {job: train, queue: research, gang: 4, cpu: 2}
        expect: {train: {phase: Running, on: {east: 4}}}

A cluster may have `queues` of its own and a `scheduler` configuration in Volcano's format; `submit` with `at: <cluster>` gives
a Job to that cluster itself, with `copies: 8` eight of them, named <job>-0 to <job>-7. `shares: {research: 4}` beside or
instead of `expect` counts running pods by queue.

Verbs: submit, apply (manifest), delete (Job), advance (duration), lose, cut, heal (member), kill, stop, resume (actor),
isolate, reconnect, reboot (member/node). Expected of a Job or JobFlow: phase, on (running pods per member), why (a reason
that is said somewhere about it), gone: true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from apis import keys, kinds, naming
from policies import durations
from simulator.nodes import uniform
from simulator.world import HUB, Doc, Member, World

SETTLE = "30s"
"""How long programs have to find each other before the first step."""
READ = "10s"
"""How long a cluster's own queues and configuration take to be read."""
SCHEDULER_MAP = "scheduler-configuration"
SCHEDULER_KEY = "volcano-scheduler.conf"
"""Where a member's scheduler looks for its configuration (docs/concepts/scheduling.md)."""


class _Loader(yaml.SafeLoader):
    """YAML 1.2 booleans: `on` is a word here."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClusterGiven(_Part):
    """A member: equal nodes, and where it is. `price` is for stories about money."""

    cpu: str | int = 8
    memory: str = "32Gi"
    nodes: int = 1
    gpus: int = 0
    price: float | None = None
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    queues: dict[str, dict[str, Any]] = {}
    scheduler: str = ""

    def member(self, name: str) -> Member:
        """As the world takes it."""
        extended = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        nodes = uniform(f"{name}-node", self.nodes, cpu=self.cpu, memory=self.memory, extended=extended)
        return Member(nodes=nodes, provider=self.provider, region=self.region, zones=self.zones, labels=self.labels)


class Given(_Part):
    clusters: dict[str, ClusterGiven]
    queues: dict[str, dict[str, Any]] = {}


class Submit(_Part):
    """A Job of one task. `runs` is how long its pods take, for ever unless it is said; `annotations` without our prefix."""

    job: str
    queue: str = keys.DEFAULT_QUEUE
    gang: int = 1
    minimum: int | None = None
    cpu: str | int = 1
    memory: str = "64Mi"
    runs: str = ""
    exit: int = 0
    failover: str = ""
    annotations: dict[str, str] = {}
    at: str = ""
    copies: int | None = None

    def manifests(self) -> list[Doc]:
        """The Jobs."""
        if self.copies is None:
            return [self._manifest(self.job)]
        return [self._manifest(f"{self.job}-{number}") for number in range(self.copies)]

    def _manifest(self, name: str) -> Doc:
        annotations = {f"{keys.GROUP}/{name}": value for name, value in self.annotations.items()}
        if self.failover:
            annotations[keys.FAILOVER] = self.failover
        sleep = f"sleep {durations.parse(self.runs)}; exit {self.exit}" if self.runs else "sleep infinity"
        container = {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sh", "-c", sleep],
            "resources": {"requests": {"cpu": str(self.cpu), "memory": self.memory}},
        }
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        minimum = self.gang if self.minimum is None else self.minimum
        return {
            "apiVersion": kinds.JOB.api_version,
            "kind": kinds.JOB.kind,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {
                "queue": self.queue,
                "minAvailable": minimum,
                "tasks": [{"name": "worker", "replicas": self.gang, "minAvailable": minimum, "template": template}],
            },
        }


class Expected(_Part):
    phase: str | None = None
    on: dict[str, int] | None = None
    why: str | None = None
    gone: bool = False


class Step(_Part):
    submit: Submit | None = None
    apply: str | None = None
    delete: str | None = None
    advance: str | None = None
    lose: str | None = None
    cut: str | None = None
    heal: str | None = None
    kill: str | None = None
    stop: str | None = None
    resume: str | None = None
    isolate: str | None = None
    reconnect: str | None = None
    reboot: str | None = None
    expect: dict[str, Expected] = {}
    shares: dict[str, int] = {}
    within: str = "60s"

    @model_validator(mode="after")
    def _one_verb(self) -> Step:
        if len(self.model_fields_set - {"expect", "shares", "within"}) > 1:
            raise ValueError("a step has one verb")
        return self


class Scenario(_Part):
    """One file."""

    story: str
    given: Given
    steps: tuple[Step, ...] = Field(min_length=1)

    @classmethod
    def read(cls, path: Path) -> Scenario:
        """Raises pydantic's ValidationError naming what cannot be read."""
        return cls.model_validate(yaml.load(path.read_text(), Loader=_Loader))

    def world(self, seed: int) -> World:
        """The world of `given`."""
        return World(seed, members={name: it.member(name) for name, it in self.given.clusters.items()})


async def play(scenario: Scenario, *, seed: int) -> World:
    """Run the story; AssertionError with the step and the world where it turns out otherwise."""
    async with scenario.world(seed) as world:
        await world.advance(durations.parse(SETTLE))
        for member, given in scenario.given.clusters.items():
            await _furnish(world, member, given)
        for name, spec in scenario.given.queues.items():
            await world.apply(_queue(name, spec))
        for number, step in enumerate(scenario.steps, start=1):
            await _act(world, step)
            for name, expected in step.expect.items():
                what = f"step {number}: {name} {expected.model_dump(exclude_defaults=True)}"
                await world.until(_holds(world, name, expected), timeout=durations.parse(step.within), what=what)
            if step.shares:
                what = f"step {number}: shares {step.shares}, not {shares(world)}"
                await world.until(_shared(world, step.shares), timeout=durations.parse(step.within), what=what)
        assert world.crashes == [], world.story()
        assert world.records.two_clusters_at_once() == [], world.story()
    return world


def _queue(name: str, spec: Mapping[str, Any]) -> Doc:
    return {"apiVersion": kinds.QUEUE.api_version, "kind": kinds.QUEUE.kind, "metadata": {"name": name}, "spec": dict(spec)}


async def _furnish(world: World, member: str, given: ClusterGiven) -> None:
    """What a cluster has of its own."""
    for name, spec in given.queues.items():
        await world.apply(_queue(name, spec), server=member)
    if given.scheduler:
        metadata = {"name": SCHEDULER_MAP, "namespace": keys.SYSTEM_NAMESPACE}
        data = {SCHEDULER_KEY: given.scheduler}
        await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, server=member)
    if given.queues or given.scheduler:
        await world.advance(durations.parse(READ))


async def _act(world: World, step: Step) -> None:
    if step.submit is not None:
        await world.apply(step.submit.manifests(), server=step.submit.at or HUB)
    if step.apply is not None:
        await world.apply(step.apply)
    if step.delete is not None:
        await world.client().delete(kinds.JOB, step.delete, namespace="default")
    if step.advance is not None:
        await world.advance(durations.parse(step.advance))
    _strike(world, step)


def _strike(world: World, step: Step) -> None:
    for verb in ("lose", "cut", "heal", "kill", "stop", "resume"):
        target = getattr(step, verb)
        if target is not None:
            getattr(world, verb)(target)
    for verb, act in (("isolate", "isolate"), ("reconnect", "heal"), ("reboot", "reboot")):
        target = getattr(step, verb)
        if target is not None:
            member, node = target.split("/")
            getattr(world.pools[member], act)(node)


def _shared(world: World, wanted: Mapping[str, int]) -> Callable[[], bool]:
    return lambda: shares(world) == wanted


def _holds(world: World, name: str, expected: Expected) -> Callable[[], bool]:
    def holds() -> bool:
        doc = world.get(kinds.JOB, name) or world.get(kinds.JOB_FLOW, name) or _local(world, name)
        if doc is None or expected.gone:
            return doc is None and expected.gone
        state = (doc.get("status") or {}).get("state") or {}
        return (
            (expected.phase is None or state.get("phase") == expected.phase)
            and (expected.on is None or running(world, name) == expected.on)
            and (expected.why is None or expected.why in reasons(world, doc))
        )

    return holds


def _local(world: World, name: str) -> Doc | None:
    """A Job that was given to a member itself."""
    return next((doc for member in world.members if (doc := world.get(kinds.JOB, name, server=member)) is not None), None)


def shares(world: World) -> dict[str, int]:
    """Containers that run now by the queue of their Job, by the nodes' own records."""
    found: dict[str, int] = {}
    for record in world.records.running():
        queue = record.labels.get(keys.QUEUE_NAME) or record.annotations.get(keys.QUEUE_NAME) or keys.DEFAULT_QUEUE
        found[queue] = found.get(queue, 0) + 1
    return found


def running(world: World, job: str) -> dict[str, int]:
    """Containers of a Job that run now, per member, by the nodes' own records."""
    found: dict[str, int] = {}
    for record in world.records.running():
        if record.job == f"default/{job}":
            found[record.cluster] = found.get(record.cluster, 0) + 1
    return found


def reasons(world: World, doc: Doc) -> set[str]:
    """Every reason said about an object: in its state, its conditions and those of its binding and Works."""
    name = doc["metadata"]["name"]
    said = [doc, world.get(kinds.RESOURCE_BINDING, naming.binding_name(name))]
    work = naming.work_name(name, namespace="default")
    said += [world.get(kinds.WORK, work, namespace=keys.execution_namespace(member)) for member in world.members]
    found: set[str] = set()
    for status in ((it.get("status") or {}) for it in said if it is not None):
        found.add((status.get("state") or {}).get("reason", ""))
        conditions = status.get("conditions") or ()
        # Those of a JobFlow are no list: they are its Jobs by name.
        found |= {condition.get("reason", "") for condition in conditions if isinstance(condition, dict)}
    return found - {""}
