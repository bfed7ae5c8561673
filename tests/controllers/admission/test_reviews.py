"""The list of upstream's admission suite (reference/volcano.md 8.6), asked of our webhooks: what is accepted, what is refused
and how, what is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from apis import keys, kinds
from apis.scheduling import Queue
from controllers.admission import pods
from controllers.admission.facts import Facts
from controllers.admission.pods import GATE, MAX_UNAVAILABLE, MIN_AVAILABLE
from controllers.admission.reviews import Rules
from controllers.admission.webhooks import HYPER_NODE
from tests.controllers.admission.reviewing import Doc, completed, facts, pod, refusal, thing
from tests.manifests import GOOD_JOB, Refusal, kind_of, refused, served

POD_SPEC = GOOD_JOB["tasks"][0]["template"]


def job(name: str = "train", *, annotations: dict[str, str] | None = None, **spec: Any) -> Doc:
    return thing(kinds.JOB, name, annotations=annotations, spec={**deepcopy(GOOD_JOB), **spec})


def task(name: str = "a", replicas: int = 1, **more: Any) -> Doc:
    return {"name": name, "replicas": replicas, "template": POD_SPEC, **more}


def flow(*steps: Doc | str) -> Doc:
    return thing(kinds.JOB_FLOW, spec={"flows": [{"name": step} if isinstance(step, str) else step for step in steps]})


def step(name: str, *after: str) -> Doc:
    return {"name": name, "dependsOn": {"targets": list(after)}}


def queue(name: str = "q", *, annotations: dict[str, str] | None = None, state: str = "", **spec: Any) -> Doc:
    status: Doc = {"status": {"state": state}} if state else {}
    return thing(kinds.QUEUE, name, annotations=annotations, spec=spec, **status)


def group(queue_name: str | None = "default", **spec: Any) -> Doc:
    return thing(kinds.POD_GROUP, spec={**({"queue": queue_name} if queue_name else {}), **spec})


def member(**selector: Any) -> Doc:
    return {"type": "Node", "selector": selector}


def hyper(*members: Doc) -> Doc:
    return thing(HYPER_NODE, spec={"tier": 1, "members": list(members)})


EXACT, REGEX = member(exactMatch={"name": "node-0"}), member(regexMatch={"pattern": "node-[0-9]+"})
LABEL = member(labelMatch={"matchLabels": {"rack": "1"}})
TREE = facts(
    Queue.of("closed", status={"state": "Closed"}),
    Queue.of("parent"),
    Queue.of("child", spec={"parent": "parent"}),
    Queue.of("q"),
)

ACCEPTED: dict[str, Doc] = {
    "job": job(),
    "job with a graph of tasks": job(
        tasks=[task("a"), task("b", dependsOn={"name": ["a"]}), task("c", dependsOn={"name": ["a", "b"], "iteration": "any"})]
    ),
    "job with a privileged container": job(
        tasks=[
            {
                "name": "a",
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]}},
            }
        ]
    ),
    "job in a child queue": job(queue="child"),
    "flow as a graph": flow("a", step("b", "a"), step("c", "a", "b")),
    "flow with one name twice": flow("a", "a"),
    "flow of two on one": flow("a", step("b", "a"), step("c", "a")),
    "flow as a chain": flow("a", step("b", "a"), step("c", "b"), step("d", "c")),
    "flow as a wide graph": flow("a", "b", step("c", "a", "b"), step("d", "c"), step("e", "c"), step("f", "d", "e")),
    "flow of nothing": flow(),
    "flow of one": flow("a"),
    "pod with a whole number": pod(annotations={MIN_AVAILABLE: "3"}),
    "pod with a percentage": pod(annotations={MAX_UNAVAILABLE: "30%"}),
    "pod without budget": pod(),
    "pod of another scheduler": pod(scheduler="other", annotations={MIN_AVAILABLE: "nonsense", MAX_UNAVAILABLE: "-1"}),
    "group in an open queue": group("q"),
    "group without queue": group(None),
    "queue that is open": queue("new", state="Open"),
    "queue that is closed": queue("new", state="Closed"),
    "queue without state": queue("new"),
    "queue without weight": queue("new", reclaimable=True),
    "queue with a share alone": queue("new", deserved={"cpu": "1"}),
    "queue with a share the ceiling does not name": queue("new", deserved={"cpu": "1"}, capability={"memory": "1Gi"}),
    "queue with a guarantee the ceiling does not name": queue(
        "new", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "1"}}, capability={"memory": "1Gi"}
    ),
    "queue with a parent": queue("new", parent="parent"),
    "queue with the older tree": queue(
        "new", annotations={"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2/3"}
    ),
    "hyper node by name": hyper(EXACT),
    "hyper node by pattern": hyper(REGEX),
    "hyper node by label": hyper(LABEL),
    "cron job": thing(
        kinds.CRON_JOB,
        "c" * 52,
        spec={"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": GOOD_JOB}},
    ),
}


def kind_for(doc: Doc) -> kinds.Kind:
    return next(
        each
        for each in [*vars(kinds).values(), HYPER_NODE]
        if isinstance(each, kinds.Kind) and (each.api_version, each.kind) == (doc["apiVersion"], doc["kind"])
    )


@pytest.mark.parametrize("doc", ACCEPTED.values(), ids=ACCEPTED)
def test_what_upstream_accepts_is_accepted(doc: Doc) -> None:
    assert refusal(kind_for(doc), doc, known=TREE) == ""


CRON = {"schedule": "0 * * * *", "jobTemplate": {"spec": GOOD_JOB}}
REFUSED: dict[str, tuple[Doc, str]] = {
    "no such queue": (job(queue="ghost"), "spec.queue: unable to find job queue"),
    "the root queue": (job(queue="root"), "spec.queue: can not submit job to root queue"),
    "a queue with children": (job(queue="parent"), "spec.queue: can only submit job to leaf queue"),
    "a closed queue": (job(queue="closed"), "spec.queue: can only submit job to queue with state `Open`"),
    "suspend that is neither": (
        job(annotations={keys.SUSPEND: "yes"}),
        f"metadata.annotations[{keys.SUSPEND}]: 'yes' is not one of true, false",
    ),
    "no-retry that is neither": (job(annotations={keys.NO_RETRY: "1"}), f"metadata.annotations[{keys.NO_RETRY}]"),
    "exclusive that is neither": (job(annotations={keys.EXCLUSIVE: "True"}), f"metadata.annotations[{keys.EXCLUSIVE}]"),
    "below-minimum that is neither": (
        job(annotations={keys.ONLY_BELOW_MINIMUM: "on"}),
        f"metadata.annotations[{keys.ONLY_BELOW_MINIMUM}]",
    ),
    "an unknown failover": (job(annotations={keys.FAILOVER: "Panic"}), "'Panic' is not one of Continue, Fence"),
    "a run time that is none": (
        job(annotations={keys.MAX_RUN_TIME: "soon"}),
        f"metadata.annotations[{keys.MAX_RUN_TIME}]: 'soon' is no duration",
    ),
    "a run time of nothing": (job(annotations={keys.MAX_RUN_TIME: "0s"}), "should be longer than nothing"),
    "a start time-out that is none": (job(annotations={keys.START_TIMEOUT: "600"}), "is no duration"),
    "a fence time that is none": (job(annotations={keys.FENCE_AFTER: "1h30m"}), "is no duration"),
    "an estimate that is none": (job(annotations={keys.ESTIMATED_DURATION: "long"}), "is no duration"),
    "main container, not a pair": (job(annotations={keys.MAIN_CONTAINER: "main"}), "'main' is not task=container"),
    "main container of nobody": (job(annotations={keys.MAIN_CONTAINER: "ghost=main"}), "'ghost' is not a task of the job"),
    "main container that is not there": (
        job(annotations={keys.MAIN_CONTAINER: "a=side"}),
        "'side' is not a container of task 'a'",
    ),
    "two main containers": (job(annotations={keys.MAIN_CONTAINER: "a=main,a=main"}), "two main containers"),
    "a timeout that is none": (
        job(policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "soon"}]),
        "spec.policies[0].timeout: 'soon' is no duration",
    ),
    "an estimate of the spec that is none": (job(runningEstimate="x"), "spec.runningEstimate"),
    "a scheduler with a long name": (job(schedulerName="s" * 64), "spec.schedulerName"),
    "flow: a target nobody named": (flow(step("a", "ghost")), "vertex is not defined"),
    "flow: waits for itself": (flow(step("a", "a")), "jobflow Flow is not DAG"),
    "pod: negative": (pod(annotations={MIN_AVAILABLE: "-1"}), "must be a positive integer"),
    "pod: zero": (pod(annotations={MIN_AVAILABLE: "0"}), "must be a positive integer"),
    "pod: 0 %": (pod(annotations={MAX_UNAVAILABLE: "0%"}), "percentage which between 1% ~ 99%"),
    "pod: 100 %": (pod(annotations={MAX_UNAVAILABLE: "100%"}), "percentage which between 1% ~ 99%"),
    "pod: text": (pod(annotations={MAX_UNAVAILABLE: "some"}), "must be a positive integer"),
    "pod: both": (
        pod(annotations={MIN_AVAILABLE: "1", MAX_UNAVAILABLE: "1"}),
        "metadata.annotations: not allow configure multiple annotations",
    ),
    "group in no queue": (group("ghost"), "spec.queue: unable to find job queue"),
    "group in a closed queue": (group("closed"), "spec.queue"),
    "group in a queue that is no name": (group("No Name"), "spec.queue: 'No Name' should match"),
    "group of a negative minimum": (group(minMember=-1), "spec.minMember: -1 should be greater than or equal to 0"),
    "group with two tier limits": (
        group(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
        "spec.networkTopology.highestTierName",
    ),
    "part of a group with two tier limits": (
        group(subGroupPolicy=[{"name": "p", "networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}]),
        "spec.subGroupPolicy[0].networkTopology.highestTierName",
    ),
    "part of a group of nobody": (
        group(subGroupPolicy=[{"name": "p", "subGroupSize": 0}]),
        "spec.subGroupPolicy[0].subGroupSize",
    ),
    "queue: a negative weight": (queue("new", weight=-1), "spec.weight: -1 should be greater than or equal to 1"),
    "queue: a guarantee alone": (queue("new", guarantee={"resource": {"cpu": "1"}}), "must be >= guarantee"),
    "queue: ceiling below share": (queue("new", deserved={"cpu": "2"}, capability={"cpu": "1"}), "must be <= capability"),
    "queue: ceiling below guarantee": (
        queue("new", deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "2"}}, capability={"cpu": "1"}),
        "must be <= capability",
    ),
    "queue: share below guarantee": (
        queue("new", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}),
        "must be >= guarantee",
    ),
    "queue: a guarantee the share does not name": (
        queue("new", deserved={"memory": "1"}, guarantee={"resource": {"cpu": "1"}}),
        "must be >= guarantee",
    ),
    "queue: a tree without weights": (
        queue("new", annotations={"volcano.sh/hierarchy": "root/a"}),
        "must have the same length",
    ),
    "queue: more levels than weights": (
        queue("new", annotations={"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2"}),
        "must have the same length",
    ),
    "queue: more weights than levels": (
        queue("new", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2/3"}),
        "must have the same length",
    ),
    "queue: a negative weight in the tree": (
        queue("new", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/-1"}),
        "must be a number larger than 0",
    ),
    "queue: a weight that is no number": (
        queue("new", annotations={"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/x"}),
        "must be a number larger than 0",
    ),
    "queue: an unknown parent": (queue("new", parent="ghost"), "spec.parent: queue 'ghost' does not exist"),
    "queue: a state nobody may ask for": (queue("new", state="Closing"), "status.state"),
    "hyper node: no name": (hyper(member(exactMatch={"name": ""})), "spec.members[0].selector.exactMatch.name: "),
    "hyper node: no DNS name": (hyper(member(exactMatch={"name": "Not_DNS"})), "should match"),
    "hyper node: no pattern": (hyper(member(regexMatch={"pattern": ""})), "should be at least 1 chars long"),
    "hyper node: no such pattern": (hyper(member(regexMatch={"pattern": "node-[0-9"})), "member regexMatch pattern is invalid"),
    "hyper node: nobody": (hyper(), "spec.members: member must have at least one member"),
    "hyper node: no way": (hyper(member()), "exactly one of exactMatch, regexMatch, labelMatch must be specified, not 0"),
    "hyper node: two ways": (hyper(member(exactMatch={"name": "a"}, regexMatch={"pattern": "a"})), "not 2"),
    "hyper node: an unknown type": (hyper({**EXACT, "type": "Rack"}), "spec.members[0].type: 'Rack' is not one of"),
    "hyper node: hyper nodes by label": (hyper({**LABEL, "type": "HyperNode"}), "only nodes are found by label"),
    "cron: a long name": (thing(kinds.CRON_JOB, "c" * 53, spec=CRON), "metadata.name: 'ccc"),
    "cron: no schedule": (
        thing(kinds.CRON_JOB, spec={**CRON, "schedule": ""}),
        "spec.schedule: should be at least 1 chars long",
    ),
    "cron: nonsense": (
        thing(kinds.CRON_JOB, spec={**CRON, "schedule": "every day"}),
        "spec.schedule: 'every day' is no schedule",
    ),
    "cron: a zone in the schedule": (
        thing(kinds.CRON_JOB, spec={**CRON, "schedule": "TZ=UTC 0 * * * *"}),
        "cannot use TZ or CRON_TZ",
    ),
    "cron: an empty zone": (
        thing(kinds.CRON_JOB, spec={**CRON, "timeZone": ""}),
        "spec.timeZone: timeZone must be nil or non-empty",
    ),
    "cron: the zone of here": (
        thing(kinds.CRON_JOB, spec={**CRON, "timeZone": "Local"}),
        "spec.timeZone: timeZone must be an explicit",
    ),
    "cron: a zone nobody has": (
        thing(kinds.CRON_JOB, spec={**CRON, "timeZone": "Mars/Olympus"}),
        "spec.timeZone: unknown time zone",
    ),
    "cron: an unknown policy": (thing(kinds.CRON_JOB, spec={**CRON, "concurrencyPolicy": "Maybe"}), "spec.concurrencyPolicy"),
    "cron: a negative deadline": (
        thing(kinds.CRON_JOB, spec={**CRON, "startingDeadlineSeconds": -1}),
        "spec.startingDeadlineSeconds",
    ),
    "cron: a negative history": (
        thing(kinds.CRON_JOB, spec={**CRON, "failedJobsHistoryLimit": -1}),
        "spec.failedJobsHistoryLimit",
    ),
    "cron: a negative history of successes": (
        thing(kinds.CRON_JOB, spec={**CRON, "successfulJobsHistoryLimit": -1}),
        "spec.successfulJobsHistoryLimit",
    ),
    "cron: no Job": (thing(kinds.CRON_JOB, spec={**CRON, "jobTemplate": {}}), "spec.jobTemplate.spec: No task specified"),
    "cron: a bad Job": (
        thing(kinds.CRON_JOB, spec={**CRON, "jobTemplate": {"spec": {"tasks": [task("a"), task("a")]}}}),
        "spec.jobTemplate.spec.tasks[1].name: duplicated task name a",
    ),
}


@pytest.mark.parametrize(("doc", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_refused_with_field_and_reason(doc: Doc, says: str) -> None:
    assert says in refusal(kind_for(doc), doc, known=TREE)


@pytest.mark.parametrize(
    "case",
    [each for each in refused() if each.kind in (kinds.JOB, kinds.JOB_FLOW, kinds.QUEUE) and "port" not in each.wrong],
    ids=str,
)
def test_every_manifest_that_must_be_refused_is_refused_by_the_webhook_too(case: Refusal) -> None:
    text = refusal(case.kind, case.manifest, known=TREE)
    assert case.field in text
    assert ("quantity" if "malformed" in case.wrong else case.says) in text


@pytest.mark.parametrize(
    "doc", [each for each in served() if kind_of(each) in (kinds.JOB, kinds.JOB_FLOW)], ids=lambda doc: doc["metadata"]["name"]
)
def test_manifests_of_users_pass(doc: Doc) -> None:
    known = facts(Queue.of(doc["spec"].get("queue") or "default"))
    assert refusal(kind_of(doc), doc, known=known) == ""


# --- updates and deletions -------------------------------------------------------------------------------------------
def test_a_job_may_be_scaled_suspended_and_given_another_priority() -> None:
    old = job(tasks=[task("a", 3), task("b", 1)], minAvailable=4)
    for change in (
        {"minAvailable": 2},
        {"tasks": [task("a", 5, minAvailable=2), task("b", 1)]},
        {"priorityClassName": "high"},
        {"suspend": True},
    ):
        new = deepcopy(old)
        new["spec"] |= change
        assert refusal(kinds.JOB, new, old=old, known=TREE) == ""
    assert refusal(kinds.JOB, job(annotations={keys.SUSPEND: "true"}), old=job(), known=TREE) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"minAvailable": 9}, "job 'minAvailable' should not be greater than total replicas"),
        ({"tasks": [task("a", 2), task("b", 1), task("c", 1)]}, "job updates may not add or remove tasks"),
        ({"queue": "q"}, "job updates may not change fields other than"),
        ({"tasks": [task("a", 2, minAvailable=3), task("b", 1)]}, "'minAvailable' is greater than 'replicas' in task"),
        ({"tasks": [task("z", 2), task("b", 1)]}, "job updates may not change fields other than"),
        ({"plugins": {"svc": []}}, "job updates may not change fields other than"),
        ({"maxRetry": 7}, "job updates may not change fields other than"),
    ],
)
def test_what_of_a_job_may_not_change(change: Doc, says: str) -> None:
    old = job()
    new = deepcopy(old)
    new["spec"] |= change
    assert says in refusal(kinds.JOB, new, old=old, known=TREE)


def test_the_manifest_of_a_job_may_be_applied_again_although_it_lacks_what_was_filled_in() -> None:
    bare = thing(kinds.JOB, spec={"tasks": [{"replicas": 2, "template": POD_SPEC}], "plugins": {"mpi": ["--master=default0"]}})
    stored = completed(kinds.JOB, bare)
    again = deepcopy(stored)
    again["spec"]["tasks"] = deepcopy(bare["spec"]["tasks"])
    assert refusal(kinds.JOB, again, old=stored) == ""
    assert refusal(kinds.JOB, bare, old=stored) == ""
    again["spec"]["tasks"][0]["maxRetry"] = 7
    assert "may not change fields other than" in refusal(kinds.JOB, again, old=stored)


def test_an_annotation_that_makes_no_sense_is_refused_on_update_too_but_not_for_being_there_already() -> None:
    bad = job(annotations={keys.SUSPEND: "maybe"})
    assert "is not one of true, false" in refusal(kinds.JOB, bad, old=job(), known=TREE)
    assert refusal(kinds.JOB, bad, old=deepcopy(bad), known=TREE) == ""
    noted = job(annotations={keys.SUSPEND: "maybe", keys.LAST_EPOCH: "3"})
    assert refusal(kinds.JOB, noted, old=bad, known=TREE) == ""


def test_a_bad_job_that_is_there_already_can_still_be_let_go() -> None:
    old = job(tasks=[], minAvailable=9)
    new = deepcopy(old)
    new["metadata"]["finalizers"] = []
    assert refusal(kinds.JOB, new, old=old, known=TREE) == ""
    leaving = deepcopy(new)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving["spec"]["minAvailable"] = 8
    assert refusal(kinds.JOB, leaving, old=old, known=TREE) == ""


def test_a_queue_that_is_closing_may_be_given_another_weight() -> None:
    old, new = queue("q", state="Closing", weight=1), queue("q", state="Closing", weight=2)
    assert refusal(kinds.QUEUE, new, old=old, known=TREE) == ""
    assert refusal(kinds.QUEUE, queue("q", state="Closed"), old=queue("q", state="Open"), known=TREE) == ""
    assert "status.state" in refusal(
        kinds.QUEUE, queue("q", state="Closing", weight=2), old=queue("q", state="Open"), known=TREE
    )
    assert "spec.weight" in refusal(kinds.QUEUE, queue("q", weight=-1), old=queue("q", weight=1), known=TREE)


def test_the_amounts_of_the_root_queue_may_be_fixed() -> None:
    old, new = queue("root", capability={"cpu": "1"}), queue("root", capability={"cpu": "2"})
    assert refusal(kinds.QUEUE, new, old=old, known=TREE) == ""
    assert "spec.capability: the resources of the root queue" in refusal(
        kinds.QUEUE, new, old=old, known=TREE, rules=Rules(fixed_root=True)
    )


def test_which_queues_may_be_deleted() -> None:
    busy = Facts({"q": Queue.of("q", status={"allocated": {"cpu": "1"}})}, {})
    assert refusal(kinds.QUEUE, None, old=queue("q"), known=TREE) == ""
    assert "`default` queue can not be deleted" in refusal(kinds.QUEUE, None, old=queue("default"), known=TREE)
    assert "`root` queue can not be deleted" in refusal(kinds.QUEUE, None, old=queue("root"), known=TREE)
    assert "child queues: child" in refusal(kinds.QUEUE, None, old=queue("parent"), known=TREE)
    assert refusal(kinds.QUEUE, None, old=queue("q"), known=busy) == ""
    assert "hold room" in refusal(kinds.QUEUE, None, old=queue("q"), known=busy, rules=Rules(check_queue_pods=True))


def test_a_queue_that_holds_pods_does_not_become_a_parent() -> None:
    busy = facts(Queue.of("q", status={"allocated": {"cpu": "1"}}))
    assert "holds pods" in refusal(kinds.QUEUE, queue("new", parent="q"), known=busy)


def test_hyper_nodes_and_flows_are_judged_when_they_change() -> None:
    assert refusal(HYPER_NODE, hyper(EXACT, REGEX), old=hyper(EXACT)) == ""
    assert "at least one member" in refusal(HYPER_NODE, hyper(), old=hyper(EXACT))
    assert refusal(kinds.JOB_FLOW, flow("a", "b"), old=flow("a")) == ""
    assert "not DAG" in refusal(kinds.JOB_FLOW, flow(step("a", "a")), old=flow("a"))


def test_a_group_of_a_job_goes_the_way_of_its_job() -> None:
    owned = group("closed")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    assert refusal(kinds.POD_GROUP, owned, known=TREE) == ""


def test_a_queue_below_a_closed_one_takes_nothing() -> None:
    known = facts(Queue.of("shut", status={"state": "Closing"}), Queue.of("below", spec={"parent": "shut"}))
    assert "queue `below` is `Closing`" in refusal(kinds.JOB, job(queue="below"), known=known)


def test_the_first_queues_are_there_before_our_programs_have_written_them() -> None:
    nothing = Facts({}, {})
    assert refusal(kinds.JOB, job(), known=nothing) == ""
    assert "root queue" in refusal(kinds.JOB, job(queue="root"), known=nothing)
    assert "does not exist" in refusal(kinds.JOB, job(queue="q"), known=nothing)


def test_job_plugins_that_are_installed_are_known() -> None:
    own = job(plugins={"teleport": []})
    assert "spec.plugins.teleport: unable to find job plugin" in refusal(kinds.JOB, own)
    assert refusal(kinds.JOB, own, rules=Rules(plugins=("svc", "teleport"))) == ""


def test_a_program_that_runs_jobs_has_its_own_word_on_those_that_pass_the_rules() -> None:
    def judge(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [("spec.plugins.svc", "--speed: no such argument")] if "--speed" in manifest["spec"]["plugins"]["svc"] else []

    rules = Rules(more=judge)
    assert refusal(kinds.JOB, job(plugins={"svc": ["--speed"]}), rules=rules) == "spec.plugins.svc: --speed: no such argument"
    assert refusal(kinds.JOB, job(plugins={"svc": []}), rules=rules) == ""
    assert "No task" in refusal(kinds.JOB, job(tasks=[], plugins={"svc": ["--speed"]}), rules=rules)


def test_a_claim_that_a_controller_named_passes_afterwards_and_not_before() -> None:
    both = job(volumes=[{"mountPath": "/a", "volumeClaim": {}, "volumeClaimName": "train-pvc-1"}])
    before = job(volumes=[{"mountPath": "/a", "volumeClaim": {}}])
    assert "spec.volumes[0]: either VolumeClaim or VolumeClaimName" in refusal(kinds.JOB, both)
    assert refusal(kinds.JOB, both, old=before) == ""
    named = job(volumes=[{"mountPath": "/a", "volumeClaimName": "x"}])
    other = job(volumes=[{"mountPath": "/a", "volumeClaimName": "y"}])
    assert "may not change fields other than" in refusal(kinds.JOB, other, old=named)


# --- what is filled in -----------------------------------------------------------------------------------------------
def test_a_job_is_completed_in_the_order_of_the_reference() -> None:
    bare = thing(
        kinds.JOB,
        spec={
            "tasks": [
                {"replicas": 2, "template": {"spec": {"hostNetwork": True, "containers": []}}},
                {"name": "ps", "replicas": 3, "minAvailable": 1},
                {
                    "name": "part",
                    "replicas": 4,
                    "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
                },
            ],
            "plugins": {"mpi": ["--port=1"], "tensorflow": []},
        },
    )
    spec = completed(kinds.JOB, bare)["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == ("default", "volcano", 3, 5)
    assert [(each["name"], each["minAvailable"], each["maxRetry"]) for each in spec["tasks"]] == [
        ("default0", 2, 3),
        ("ps", 1, 3),
        ("part", 2, 3),
    ]
    assert spec["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert spec["plugins"] == {"mpi": ["--port=1"], "tensorflow": [], "svc": [], "ssh": []}


@pytest.mark.parametrize("plugin", ["tensorflow", "mpi", "pytorch", "ray"])
def test_plugins_bring_the_network_they_need(plugin: str) -> None:
    assert completed(kinds.JOB, job(plugins={plugin: []}))["spec"]["plugins"]["svc"] == []
    assert completed(kinds.JOB, job(plugins={plugin: [], "svc": ["--x"]}))["spec"]["plugins"]["svc"] == ["--x"]


def test_a_job_that_says_everything_is_not_touched_and_neither_is_what_nobody_knows() -> None:
    once = completed(kinds.JOB, job(unheard={"of": 1}))
    assert once["spec"]["unheard"] == {"of": 1}
    assert completed(kinds.JOB, once) is once


def test_what_cannot_be_read_is_not_completed_but_refused() -> None:
    broken = job(minAvailable="many")
    assert completed(kinds.JOB, broken) is broken
    assert "spec.minAvailable" in refusal(kinds.JOB, broken)


def test_the_scheduler_is_the_one_that_is_set() -> None:
    assert completed(kinds.JOB, job(), rules=Rules(scheduler="ours"))["spec"]["schedulerName"] == "ours"


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({}, {"weight": 1, "reclaimable": True}),
        ({"weight": 3}, {"weight": 3, "reclaimable": True}),
        ({"reclaimable": False}, {"weight": 1, "reclaimable": False}),
    ],
)
def test_a_queue_is_completed(given: Doc, filled: Doc) -> None:
    assert completed(kinds.QUEUE, queue("new", **given))["spec"] == filled


def test_the_older_tree_begins_at_the_root() -> None:
    notes = {"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "2/3"}
    filled = completed(kinds.QUEUE, queue("new", annotations=notes))["metadata"]["annotations"]
    assert filled == {"volcano.sh/hierarchy": "root/a/b", "volcano.sh/hierarchy-weights": "1/2/3"}
    rooted = {"volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/3"}
    assert completed(kinds.QUEUE, queue("new", annotations=rooted))["metadata"]["annotations"] == rooted


@pytest.mark.parametrize(
    ("given", "namespaces", "becomes"),
    [
        ("q", {"ns": "research"}, "q"),
        ("default", {"ns": "research"}, "research"),
        (None, {"ns": "research"}, "research"),
        ("default", {}, "default"),
        ("default", {"elsewhere": "research"}, "default"),
    ],
)
def test_a_group_gets_the_queue_of_its_namespace(given: str | None, namespaces: dict[str, str], becomes: str) -> None:
    assert completed(kinds.POD_GROUP, group(given), known=facts(namespaces=namespaces))["spec"]["queue"] == becomes


CPU, GPU = {"volcano.sh/resource-group": "cpu"}, {"volcano.sh/resource-group": "gpu"}


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        (pod(namespace="mng-ns", scheduler=None), "nodeSelector", {"volcano.sh/nodetype": "management"}),
        (pod(annotations=CPU), "nodeSelector", {"volcano.sh/nodetype": "cpu"}),
        (pod(annotations=GPU), "nodeSelector", {"volcano.sh/nodetype": "gpu"}),
        (
            pod(annotations=CPU),
            "affinity",
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        ),
        (pod(annotations=CPU, affinity={"podAffinity": {}}), "affinity", {"podAffinity": {}}),
        (pod(annotations=GPU), "tolerations", [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        (
            pod(annotations=GPU, tolerations=[{"key": "mine"}]),
            "tolerations",
            [{"key": "mine"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        ),
        (pod(annotations=GPU, scheduler="default-scheduler"), "schedulerName", "volcano"),
        (pod(annotations=GPU, scheduler="mine"), "schedulerName", "mine"),
        (pod(annotations=CPU, nodeSelector={"disk": "ssd"}), "nodeSelector", {"volcano.sh/nodetype": "cpu", "disk": "ssd"}),
        (pod(annotations=CPU, nodeSelector={"volcano.sh/nodetype": "own"}), "nodeSelector", {"volcano.sh/nodetype": "own"}),
        (pod(annotations={"example.com/pool": "blue"}), "nodeSelector", {"pool": "blue"}),
        (pod(annotations={GATE: "true"}), "schedulingGates", [{"name": GATE}]),
        (pod(annotations={GATE: "true"}, schedulingGates=[{"name": "x"}]), "schedulingGates", [{"name": "x"}, {"name": GATE}]),
        (pod(annotations={GATE: "true"}, schedulingGates=[{"name": GATE}]), "schedulingGates", [{"name": GATE}]),
    ],
)
def test_a_pod_gets_what_its_group_says_and_keeps_what_it_says_itself(given: Doc, field: str, value: object) -> None:
    assert completed(kinds.POD, given)["spec"][field] == value


@pytest.mark.parametrize(
    "given", [pod(), pod(scheduler="other", annotations={GATE: "true"}), pod(annotations={"volcano.sh/resource-group": "tape"})]
)
def test_other_pods_are_not_touched(given: Doc) -> None:
    assert completed(kinds.POD, given) is given


def test_pods_of_all_names_of_our_scheduler_are_judged_and_completed() -> None:
    rules = Rules(more_schedulers=("batch",), gates=True)
    asks = pod(scheduler="batch", annotations={GATE: "true"})
    assert completed(kinds.POD, asks, rules=rules)["spec"]["schedulingGates"] == [{"name": GATE}]
    assert completed(kinds.POD, asks) is asks
    assert pods.validate_pod(pod(scheduler="batch", annotations={MIN_AVAILABLE: "-1"}), schedulers=rules.schedulers)
    assert not pods.validate_pod(pod(scheduler="other", annotations={MIN_AVAILABLE: "-1"}), schedulers=rules.schedulers)


def test_no_gate_where_gates_are_off() -> None:
    given = pod(annotations={GATE: "true"})
    assert completed(kinds.POD, given, rules=Rules()) is given
