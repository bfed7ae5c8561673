"""What an agent says of pods whose containers cannot start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apis import kinds
from machinery.port import PatchType
from member_agent.views import Projector
from policies.troubles import TROUBLES
from tests.member_agent.world import EAST, Stage, job, play


def pod(state: dict[str, Any], *, phase: str = "Pending", init: bool = False) -> bytes:
    """A pod with one container in this state."""
    listed = "initContainerStatuses" if init else "containerStatuses"
    spec = {"containers": [{"name": "main", "image": "app"}]}
    return json.dumps(
        {"metadata": {"name": "a"}, "spec": spec, "status": {"phase": phase, listed: [{"state": state}]}}
    ).encode()


@pytest.mark.parametrize("reason", sorted(TROUBLES))
@pytest.mark.parametrize("init", [False, True])
def test_a_waiting_reason_that_may_never_end_is_kept_with_its_message(reason: str, init: bool) -> None:
    seen = Projector().pod(pod({"waiting": {"reason": reason, "message": "no such thing " + "x" * 1000}}, init=init))
    assert seen.trouble is not None
    assert seen.trouble[0] == reason
    assert seen.trouble[1].startswith("no such thing") and len(seen.trouble[1]) == 256


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ({"waiting": {"reason": "ContainerCreating"}}, "Pending"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "Running"),
        ({"waiting": {"reason": "ImagePullBackOff"}}, "Running"),
        ({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "Pending"),
    ],
)
def test_a_pod_that_runs_or_only_takes_its_time_is_in_no_trouble(state: dict[str, Any], phase: str) -> None:
    assert Projector().pod(pod(state, phase=phase)).trouble is None


def test_a_work_says_why_its_run_does_not_start_once_however_a_kubelet_words_it() -> None:
    async def tell(stage: Stage) -> None:
        manifest = job("train", replicas=2)
        manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "app:missing"
        work = await stage.grant(manifest)

        def said() -> dict[str, Any]:
            listed = (stage.work(work) or {}).get("status", {}).get("manifestStatuses") or [{}]
            found: dict[str, Any] = (listed[0].get("status") or {}).get("state") or {}
            return found

        await stage.until(lambda: said().get("reason") == "ImagePullBackOff")
        assert said()["message"] == '2 of 2 pods cannot start; train-work-0: Back-off pulling image "app:missing"'
        begin = len(stage.world.faults.log)
        for reason in ("ErrImagePull", "ImagePullBackOff", "ErrImagePull"):
            for each in stage.pods("train"):
                status = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason, "message": "no"}}}]}
                client = stage.world.client(EAST)
                name = each["metadata"]["name"]
                body = {"status": status}
                await client.patch(kinds.POD, name, body, type=PatchType.MERGE, namespace="default", subresource="status")
            await stage.world.advance(20)
        mine = [write for write in stage.world.faults.log[begin:] if write.kind == kinds.WORK.name]
        assert (mine, said()["reason"]) == ([], "ImagePullBackOff")

    play(tell)
