"""Admission on real API servers: of the hub, and of a member that runs Jobs of its own."""

from __future__ import annotations

import asyncio
import contextlib
from copy import deepcopy
from typing import Any

import orjson
import pytest

from apis import keys, kinds
from controllers.admission.pods import MAX_UNAVAILABLE, MIN_AVAILABLE
from e2e import programs
from e2e.apply import Doc, phase, wait_for
from e2e.controlplane.fleet import Federation
from machinery import errors
from machinery.kube import KubePort
from machinery.port import PatchType, Port
from tests.manifests import GOOD_JOB, refused

pytestmark = pytest.mark.issue(4)

MEMBER = "north"
JOBS = "volcano-admission-service-jobs-validate"
JUDGED = (kinds.JOB, kinds.JOB_FLOW, kinds.QUEUE)
CYCLE = [
    {**GOOD_JOB["tasks"][0], "name": "a", "dependsOn": {"name": ["b"]}},
    {**GOOD_JOB["tasks"][1], "name": "b", "dependsOn": {"name": ["a"]}},
]
"""What no schema can say: two tasks that wait for each other."""


def thing(kind: kinds.Kind, name: str, *, annotations: dict[str, str] | None = None, **fields: Any) -> Doc:
    meta: Doc = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **fields}


def job(name: str = "asked", *, annotations: dict[str, str] | None = None, **spec: Any) -> Doc:
    return thing(kinds.JOB, name, annotations=annotations, spec={**deepcopy(GOOD_JOB), **spec})


def pod(*, scheduler: str, annotations: dict[str, str] | None = None, name: str = "bare") -> Doc:
    body = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
    return thing(kinds.POD, name, annotations=annotations, spec=body)


async def asked(port: Port, doc: Doc, *, namespace: str) -> Doc:
    """The object as it would be stored; nothing is."""
    kind = next(
        each
        for each in vars(kinds).values()
        if isinstance(each, kinds.Kind) and (each.api_version, each.kind) == (doc["apiVersion"], doc["kind"])
    )
    body = deepcopy(doc)
    body["metadata"].pop("namespace", None)
    answer: Doc = orjson.loads(await port.create(kind, body, namespace=namespace if kind.namespaced else None, dry_run=True))
    return answer


async def refusal(port: Port, doc: Doc, *, namespace: str) -> tuple[str, set[str]]:
    """Text and fields of the refusal; empty when it is taken."""
    try:
        await asked(port, doc, namespace=namespace)
    except errors.Invalid as error:
        return str(error), {cause.field for cause in error.causes}
    return "", set()


async def answering(port: Port, *, namespace: str) -> None:
    """Return once the API server asks the webhooks and gets answers."""
    async with asyncio.timeout(90):
        while (await asked(port, job(), namespace=namespace))["spec"].get("schedulerName") is None:
            await asyncio.sleep(0.2)


@pytest.fixture
async def doors(
    running: Federation, hub_port: KubePort, member_ports: dict[str, KubePort], namespace: str
) -> dict[str, KubePort]:
    """The API servers of the hub and of a member, both with their webhooks."""
    found = {"hub": hub_port, MEMBER: member_ports[MEMBER]}
    for port in found.values():
        await answering(port, namespace=namespace)
    return found


async def test_a_bare_job_is_completed_by_hub_and_member(doors: dict[str, KubePort], namespace: str) -> None:
    template = GOOD_JOB["tasks"][0]["template"]
    bare = thing(
        kinds.JOB, "bare", spec={"tasks": [{"replicas": 2, "template": template}], "plugins": {"pytorch": ["--port=1"]}}
    )
    for port in doors.values():
        spec = (await asked(port, bare, namespace=namespace))["spec"]
        assert (spec["queue"], spec["schedulerName"], spec["maxRetry"], spec["minAvailable"]) == ("default", "volcano", 3, 2)
        task = spec["tasks"][0]
        assert (task["name"], task["minAvailable"], task["maxRetry"]) == ("default0", 2, 3)
        assert spec["plugins"] == {"pytorch": ["--port=1"], "svc": []}


BY_RULES = [each for each in refused() if not each.by_schema and each.kind in JUDGED]


@pytest.mark.parametrize("place", ["hub", MEMBER])
async def test_what_no_schema_can_say_is_refused_with_field_and_reason(
    doors: dict[str, KubePort], namespace: str, place: str
) -> None:
    wrong: list[tuple[str, str]] = []
    for case in BY_RULES:
        text, fields = await refusal(doors[place], case.manifest, namespace=namespace)
        if case.says not in text or not any(field.startswith(case.field) for field in fields):
            wrong.append((str(case), text))
    assert wrong == []
    assert len(BY_RULES) > 15


@pytest.mark.parametrize(
    ("doc", "says"),
    [
        (job(queue="ghost"), "spec.queue: unable to find job queue"),
        (job(queue="root"), "can not submit job to root queue"),
        (job(annotations={keys.MAX_RUN_TIME: "soon"}), f"metadata.annotations[{keys.MAX_RUN_TIME}]: 'soon' is no duration"),
        (job(annotations={keys.MAIN_CONTAINER: "a=side"}), "'side' is not a container of task 'a'"),
        (
            thing(kinds.CRON_JOB, "cron", spec={"schedule": "99 * * * *", "jobTemplate": {"spec": GOOD_JOB}}),
            "spec.schedule: '99 * * * *' is no schedule",
        ),
        (
            thing(kinds.CRON_JOB, "cron", spec={"schedule": "@daily", "timeZone": "Mars", "jobTemplate": {"spec": GOOD_JOB}}),
            "spec.timeZone: unknown time zone",
        ),
        (thing(kinds.QUEUE, "lost", spec={"parent": "ghost"}), "spec.parent: queue 'ghost' does not exist"),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else value[:30],
)
async def test_what_depends_on_other_objects_or_is_ours_is_refused_at_both(
    doors: dict[str, KubePort], namespace: str, doc: Doc, says: str
) -> None:
    for port in doors.values():
        assert says in (await refusal(port, doc, namespace=namespace))[0]


async def test_pods_and_groups_are_judged_in_a_member_and_pods_of_others_are_not(
    doors: dict[str, KubePort], namespace: str
) -> None:
    port = doors[MEMBER]
    for notes, says in (
        ({MIN_AVAILABLE: "0"}, "must be a positive integer"),
        ({MAX_UNAVAILABLE: "100%"}, "percentage which between 1% ~ 99%"),
        ({MIN_AVAILABLE: "1", MAX_UNAVAILABLE: "1"}, "not allow configure multiple annotations"),
    ):
        assert says in (await refusal(port, pod(scheduler="volcano", annotations=notes), namespace=namespace))[0]
        assert await refusal(port, pod(scheduler="default-scheduler", annotations=notes), namespace=namespace) == ("", set())
    group = thing(kinds.POD_GROUP, "g", spec={"queue": "ghost"})
    assert "spec.queue: unable to find job queue" in (await refusal(port, group, namespace=namespace))[0]


async def test_a_group_gets_the_queue_of_its_namespace(doors: dict[str, KubePort], namespace: str) -> None:
    port, queue = doors[MEMBER], f"q-{namespace}"
    await port.create(kinds.QUEUE, thing(kinds.QUEUE, queue, spec={}))
    note = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}
    await port.patch(kinds.NAMESPACE, namespace, note, type=PatchType.MERGE)
    async with asyncio.timeout(20):
        while (await asked(port, thing(kinds.POD_GROUP, "g", spec={}), namespace=namespace))["spec"]["queue"] != queue:
            await asyncio.sleep(0.2)
    await port.delete(kinds.QUEUE, queue)


async def test_a_queue_and_its_first_job_may_be_made_at_once_and_a_parent_may_not_be_deleted(
    doors: dict[str, KubePort], namespace: str
) -> None:
    for port in doors.values():
        parent, child = f"p-{namespace}", f"c-{namespace}"
        await port.create(kinds.QUEUE, thing(kinds.QUEUE, parent, spec={}))
        await port.create(kinds.QUEUE, thing(kinds.QUEUE, child, spec={"parent": parent}))
        assert (await asked(port, job(queue=child), namespace=namespace))["spec"]["queue"] == child
        assert "leaf queue" in (await refusal(port, job(queue=parent), namespace=namespace))[0]
        with pytest.raises(errors.Invalid, match="denied the request: .* child queues"):
            await port.delete(kinds.QUEUE, parent)
        with pytest.raises(errors.Invalid, match="`default` queue can not be deleted"):
            await port.delete(kinds.QUEUE, "default")
        for name in (child, parent):
            await port.delete(kinds.QUEUE, name)


async def test_a_controller_may_name_a_claim_that_a_user_may_not_name_beside_its_own(
    doors: dict[str, KubePort], namespace: str
) -> None:
    """Suspended, so that nothing of it runs; both sides say the same, schema and rules."""
    port, quiet = doors[MEMBER], {keys.SUSPEND: "true"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    both = [{"mountPath": "/a", "volumeClaim": claim, "volumeClaimName": "made"}]
    text, fields = await refusal(port, job(annotations=quiet, volumes=both), namespace=namespace)
    assert "either VolumeClaim or VolumeClaimName must be specified" in text and fields == {"spec.volumes"}
    given = job("claims", annotations=quiet, volumes=[{"mountPath": "/a", "volumeClaim": claim}])
    await port.create(kinds.JOB, given, namespace=namespace)
    filled = await port.patch(kinds.JOB, "claims", {"spec": {"volumes": both}}, type=PatchType.MERGE, namespace=namespace)
    assert orjson.loads(filled)["spec"]["volumes"] == both
    await port.delete(kinds.JOB, "claims", namespace=namespace)


# --- while nobody answers --------------------------------------------------------------------------------------------
async def test_without_its_agent_a_member_takes_every_pod_and_a_bad_job_fails_afterwards_with_its_reason(
    running: Federation, doors: dict[str, KubePort], namespace: str
) -> None:
    port, agent = doors[MEMBER], programs.agent_name(MEMBER)
    running.programs.kill(agent)
    try:
        async with asyncio.timeout(5):  # nobody waits for a server that is not there
            await port.create(kinds.POD, pod(scheduler="default-scheduler", name="theirs"), namespace=namespace)
            await port.create(kinds.POD, pod(scheduler="volcano", name="ours"), namespace=namespace)
            await port.create(kinds.JOB, job("bad", tasks=CYCLE), namespace=namespace)
        with pytest.raises(errors.ApiError, match="failed calling webhook"):
            await port.create(kinds.QUEUE, thing(kinds.QUEUE, f"q-{namespace}", spec={}), dry_run=True)
    finally:
        running.programs.restart(agent)
        await answering(port, namespace=namespace)
    ended = await wait_for(port, kinds.JOB, "bad", namespace=namespace, until=lambda doc: phase(doc) == "Failed", timeout=60)
    assert ended is not None
    assert "spec.tasks[0].dependsOn: tasks wait for each other in a cycle" in ended["status"]["state"]["message"]
    assert ended["status"]["state"]["reason"]


async def test_without_the_hub_a_bad_job_is_taken_and_fails_afterwards_with_its_reason(
    running: Federation, doors: dict[str, KubePort], namespace: str
) -> None:
    port = doors["hub"]
    running.programs.kill(programs.HUB)
    try:
        await port.create(kinds.JOB, job("bad", tasks=CYCLE), namespace=namespace)
    finally:
        running.programs.restart(programs.HUB)
        await answering(port, namespace=namespace)
    ended = await wait_for(port, kinds.JOB, "bad", namespace=namespace, until=lambda doc: phase(doc) == "Failed", timeout=60)
    assert ended is not None
    assert "spec.tasks[0].dependsOn: tasks wait for each other in a cycle" in ended["status"]["state"]["message"]


# --- certificates ----------------------------------------------------------------------------------------------------
async def test_a_rotation_goes_unnoticed_by_a_real_api_server(
    running: Federation, doors: dict[str, KubePort], namespace: str
) -> None:
    """Certificates that live for seconds, made anew by a hub that is told so: every request on the way is answered."""
    port = doors["hub"]
    lives = {"authority": 18.0, "serving": 9.0, "settle": 3.0}
    running.programs.kill(programs.HUB)
    await port.delete(kinds.SECRET, "federation-hub-webhook", namespace=keys.SYSTEM_NAMESPACE)
    before = await told(port)
    running.programs.start(programs.HUB, command=programs.hub_command(running, lifetimes=lives, pace=0.2))
    try:
        async with asyncio.timeout(60):
            while await told(port) == before:
                await asyncio.sleep(0.1)
        await answering(port, namespace=namespace)
        missed, bundles = await follow(port, namespace=namespace, seconds=25)
    finally:
        running.programs.kill(programs.HUB)
        with contextlib.suppress(errors.NotFound):
            await port.delete(kinds.SECRET, "federation-hub-webhook", namespace=keys.SYSTEM_NAMESPACE)
        programs.start_hub(running)
        await answering(port, namespace=namespace)
    assert missed == 0
    assert len(bundles) >= 4, "one authority, both, the second first, the second alone"


async def follow(port: Port, *, namespace: str, seconds: float) -> tuple[int, set[str]]:
    """Requests that no webhook completed, and what the API server was told to trust meanwhile."""
    missed, bundles = 0, set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                bundles.add(await told(port))
                spec = (await asked(port, job(), namespace=namespace))["spec"]
                missed += spec.get("schedulerName") is None
                await asyncio.sleep(0.1)
    return missed, bundles


async def told(port: Port) -> str:
    """The authorities in the configuration."""
    doc = orjson.loads(await port.get(kinds.VALIDATING_WEBHOOKS, JOBS))
    return str(doc["webhooks"][0]["clientConfig"]["caBundle"])
