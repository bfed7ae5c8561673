"""Which webhooks there are: what each is asked about, and what happens while nobody answers.

Ignore everywhere but at Queues: a Job that no webhook has seen is judged by the controller that would run it, a pod or
PodGroup by the API server's own rules, so that an outage of ours stops nobody. A Queue is judged nowhere else and written
by administrators alone; while nobody answers it stays as it is. A PlacementReview without a stamp would be refused later.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from apis import cluster_orders, keys, kinds
from apis.kinds import Kind
from controllers.admission.resource_groups import ResourceGroup

HYPER_NODE: Final = Kind("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", namespaced=False)
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


class Verb(enum.StrEnum):
    """What a webhook does."""

    MUTATE = "mutate"
    VALIDATE = "validate"


@dataclass(frozen=True, slots=True)
class Condition:
    """A CEL expression that must hold for the webhook to be asked at all."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook. `fails`: requests are refused while nobody answers."""

    kind: Kind
    verb: Verb
    operations: tuple[str, ...]
    fails: bool = False
    conditions: tuple[Condition, ...] = ()

    @property
    def path(self) -> str:
        """Where the server answers it."""
        return f"/{self.kind.plural}/{self.verb}"

    @property
    def configuration(self) -> str:
        """Name of the configuration that registers it."""
        return f"volcano-admission-service-{self.kind.plural}-{self.verb}"

    @property
    def name(self) -> str:
        """As refusals name it."""
        return f"{self.kind.plural}.{self.verb}.{keys.GROUP}"


# What the hub runs here came through the hub's door; how it is carried out is between hub and agent.
NOT_A_RUN: Final = Condition(
    "not-a-run-of-the-hub",
    f"!has(object.metadata.annotations) || !('{keys.RUN}' in object.metadata.annotations)",
)
# The first queues are made by our own programs, before anybody can answer.
NOT_A_FIRST_QUEUE: Final = Condition(
    "not-one-of-the-first-queues",
    f"!(request.operation == '{CREATE}' && has(object.metadata.name)"
    f" && object.metadata.name in ['{keys.DEFAULT_QUEUE}', '{keys.ROOT_QUEUE}'])",
)

PLACING: Final = (
    kinds.PROPAGATION_POLICY,
    kinds.CLUSTER_PROPAGATION_POLICY,
    kinds.OVERRIDE_POLICY,
    kinds.CLUSTER_OVERRIDE_POLICY,
    kinds.CLUSTER_TAINT_POLICY,
    kinds.FEDERATED_RESOURCE_QUOTA,
    kinds.CLUSTER_OFFER,
    kinds.PLACEMENT_PROFILE,
)
"""What says where Jobs go: it stands at the hub alone."""

# Of Clusters only those are looked at on which people ask for something: agents write theirs now and then.
ASKS_SOMETHING: Final = Condition(
    "asks-something",
    "has(object.spec.taints) || (has(object.metadata.annotations) && ("
    + " || ".join(
        f"'{key}' in object.metadata.annotations"
        for key in (cluster_orders.DRAIN, cluster_orders.DECLARE_LOST, cluster_orders.ORDERED_BY)
    )
    + "))",
)

_FIXED: Final = (
    Webhook(kinds.JOB, Verb.MUTATE, (CREATE,), conditions=(NOT_A_RUN,)),
    Webhook(kinds.JOB, Verb.VALIDATE, (CREATE, UPDATE), conditions=(NOT_A_RUN,)),
    Webhook(kinds.CRON_JOB, Verb.VALIDATE, (CREATE, UPDATE)),
    Webhook(kinds.JOB_FLOW, Verb.VALIDATE, (CREATE, UPDATE)),
    Webhook(kinds.JOB_TEMPLATE, Verb.VALIDATE, (CREATE, UPDATE)),
    Webhook(kinds.QUEUE, Verb.MUTATE, (CREATE,), conditions=(NOT_A_FIRST_QUEUE,)),
    Webhook(kinds.QUEUE, Verb.VALIDATE, (CREATE, UPDATE, DELETE), fails=True, conditions=(NOT_A_FIRST_QUEUE,)),
    Webhook(kinds.POD_GROUP, Verb.MUTATE, (CREATE,)),
    Webhook(kinds.POD_GROUP, Verb.VALIDATE, (CREATE,)),
    Webhook(kinds.CLUSTER, Verb.MUTATE, (CREATE, UPDATE), conditions=(ASKS_SOMETHING,)),
    Webhook(HYPER_NODE, Verb.VALIDATE, (CREATE, UPDATE)),
    Webhook(kinds.PLACEMENT_REVIEW, Verb.MUTATE, (CREATE,), fails=True),
    Webhook(kinds.PLACEMENT_REVIEW, Verb.VALIDATE, (CREATE, UPDATE), fails=True),
    *(Webhook(kind, Verb.VALIDATE, (CREATE, UPDATE)) for kind in PLACING),
)
_BOTH: Final = ("jobs", "jobflows", "queues", "cronjobs")
HUB_KINDS: Final = (
    *_BOTH,
    *(kind.plural for kind in PLACING),
    kinds.PLACEMENT_REVIEW.plural,
    kinds.CLUSTER.plural,
    kinds.JOB_TEMPLATE.plural,
)
MEMBER_KINDS: Final = (*_BOTH, "podgroups", "pods", "hypernodes")


def served(
    plurals: Iterable[str],
    *,
    schedulers: tuple[str, ...] = (keys.DEFAULT_SCHEDULER,),
    groups: tuple[ResourceGroup, ...] = (),
    gates: bool = False,
) -> tuple[Webhook, ...]:
    """The webhooks of these kinds; ValueError for a kind there is none of."""
    everything = [*_FIXED, *_pods(schedulers, groups=groups, gates=gates)]
    wanted = set(plurals)
    known = dict.fromkeys((*HUB_KINDS, *MEMBER_KINDS))
    unknown = wanted - known.keys()
    if unknown:
        raise ValueError(f"no webhook for {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return tuple(webhook for webhook in everything if webhook.kind.plural in wanted)


def _pods(schedulers: tuple[str, ...], *, groups: tuple[ResourceGroup, ...], gates: bool) -> list[Webhook]:
    """Pods are looked at only where they are ours, or belong to a group that takes them."""
    names = ", ".join(map(_text, dict.fromkeys(schedulers)))
    ours = f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]"
    validate = Webhook(kinds.POD, Verb.VALIDATE, (CREATE,), conditions=(Condition("ours", ours),))
    reasons = [f"({ours})"] if gates else []
    reasons += [f"request.namespace == {_text(name)}" for group in groups for name in group.namespaces]
    for key, value in [pair for group in groups for pair in group.annotations]:
        noted = f"{_text(key)} in object.metadata.annotations && object.metadata.annotations[{_text(key)}] == {_text(value)}"
        reasons.append(f"(has(object.metadata.annotations) && {noted})")
    if not reasons:
        return [validate]
    mutate = Webhook(kinds.POD, Verb.MUTATE, (CREATE,), conditions=(Condition("ours-or-of-a-group", " || ".join(reasons)),))
    return [mutate, validate]


def _text(value: str) -> str:
    """A string as CEL writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
