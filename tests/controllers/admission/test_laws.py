"""Whatever somebody writes, webhooks answer: allowed or refused with a reason, and a patch that can be applied."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apis import kinds
from apis.kinds import Kind
from apis.scheduling import Queue
from controllers.admission.pods import GATE, MIN_AVAILABLE
from controllers.admission.webhooks import HYPER_NODE, Verb
from tests.controllers.admission.reviewing import SERVED, Doc, ask, completed, facts, pod, thing
from tests.manifests import GOOD_JOB

KINDS = (kinds.JOB, kinds.CRON_JOB, kinds.JOB_FLOW, kinds.QUEUE, kinds.POD_GROUP, kinds.POD, HYPER_NODE)
NAMES = (
    *("metadata", "annotations", "labels", "spec", "tasks", "name", "replicas", "minAvailable", "template", "containers"),
    *("policies", "event", "action", "exitCode", "volumes", "mountPath", "plugins", "mpi", "queue", "dependsOn", "flows"),
    *("targets", "members", "selector", "exactMatch", "regexMatch", "pattern", "tier", "tolerations", "nodeSelector"),
    *("schedulerName", "schedulingGates", "weight", "capability", "cpu", "guarantee", "resource", "parent", "schedule"),
    *("timeZone", "jobTemplate", "networkTopology", "partitionPolicy", "status", "state", "resources", "requests"),
    *(MIN_AVAILABLE, GATE, "volcano.sh/resource-group", "volcano.sh/hierarchy"),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "a", "default", "volcano", "gpu", "true", "5%", "*", "1h", "2Gi", "PodFailed", "AbortJob", "[", "@daily"]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=14,
)
GOOD: dict[Kind, Doc] = {
    kinds.JOB: thing(kinds.JOB, spec=GOOD_JOB),
    kinds.CRON_JOB: thing(kinds.CRON_JOB, spec={"schedule": "@daily", "jobTemplate": {"spec": GOOD_JOB}}),
    kinds.JOB_FLOW: thing(kinds.JOB_FLOW, spec={"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}),
    kinds.QUEUE: thing(kinds.QUEUE, spec={"weight": 1, "capability": {"cpu": "2"}, "deserved": {"cpu": "1"}}),
    kinds.POD_GROUP: thing(kinds.POD_GROUP, spec={"minMember": 1, "queue": "default"}),
    kinds.POD: pod(annotations={MIN_AVAILABLE: "1"}),
    HYPER_NODE: thing(HYPER_NODE, spec={"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}}}]}),
}


def places(doc: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    children = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    return [path] * bool(path) + [place for key, child in children for place in places(child, (*path, key))]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Kind, Doc]:
    """A sound object with something else in one to three places."""
    kind = draw(st.sampled_from(KINDS))
    doc = deepcopy(GOOD[kind])
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(places(doc)))
        there: Any = doc
        for step in way:
            there = there[step]
        there[last] = draw(anything)
    return kind, doc


def check(kind: Kind, doc: Doc, old: Doc | None = None) -> None:
    known = facts(Queue.of("shut", status={"state": "Closed"}))
    response = ask(kind, Verb.VALIDATE, doc, old=old, known=known)
    assert response["allowed"] or response["status"]["message"]
    if (kind, Verb.MUTATE) in SERVED and old is None:
        completed(kind, doc, known=known)


@given(mutated())
def test_law_an_object_with_anything_anywhere_is_answered(case: tuple[Kind, Doc]) -> None:
    check(*case)


@given(mutated())
def test_law_so_is_a_change_to_it_and_one_away_from_it(case: tuple[Kind, Doc]) -> None:
    kind, doc = case
    if "UPDATE" in SERVED[kind, Verb.VALIDATE].operations:
        check(kind, doc, GOOD[kind])
        check(kind, GOOD[kind], doc)


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), anything))
def test_law_so_is_what_is_hardly_an_object(kind: Kind, doc: Doc) -> None:
    check(kind, doc)


@given(mutated())
def test_law_what_is_completed_is_complete(case: tuple[Kind, Doc]) -> None:
    kind, doc = case
    if (kind, Verb.MUTATE) in SERVED:
        once = completed(kind, doc)
        assert completed(kind, once) == once
