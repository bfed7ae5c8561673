"""Pods as kubelets run them: several containers, init containers and sidecars, probes, hooks, deadlines and evictions."""

from __future__ import annotations

import pytest

from apis import kinds
from machinery import errors
from simulator.commands import DURATION, EXIT_CODE
from tests.simulator.pool import Stage, container


async def test_containers_end_each_with_its_own_code_and_the_pod_fails_when_the_last_has_ended(stage: Stage) -> None:
    await stage.run("a", "", containers=[container("one", "sleep 1; exit 3"), container("two", "sleep 20")])
    await stage.clock.sleep(5)
    assert await stage.phase("a") == "Running"
    assert (await stage.statuses("a"))["one"]["state"]["terminated"]["exitCode"] == 3
    assert (await stage.condition("a", "Ready"))["reason"] == "ContainersNotReady"
    await stage.clock.sleep(20)
    assert await stage.phase("a") == "Failed"
    codes = {name: each["state"]["terminated"]["exitCode"] for name, each in (await stage.statuses("a")).items()}
    assert codes == {"one": 3, "two": 0}


async def test_annotations_speak_to_one_container_and_to_one_start(stage: Stage) -> None:
    notes = {f"{EXIT_CODE}.one": "1,2,0", DURATION: "1"}
    containers = [container("one", "true"), container("two", "sleep 60")]
    await stage.run("a", "", containers=containers, annotations=notes, restartPolicy="OnFailure")
    await stage.clock.sleep(60)
    assert await stage.phase("a") == "Succeeded"
    one = (await stage.statuses("a"))["one"]
    assert (one["restartCount"], one["lastState"]["terminated"]["exitCode"]) == (2, 2)
    assert [record.exit_code for record in stage.pool.records if record.container == "one"] == [1, 2, 0]


async def test_a_crashing_container_waits_in_its_backoff_and_says_how_it_ended(stage: Stage) -> None:
    await stage.run("a", "sleep 1; exit 7", restartPolicy="Always")
    await stage.clock.sleep(8)
    main = (await stage.statuses("a"))["main"]
    assert main["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (main["lastState"]["terminated"]["exitCode"], main["restartCount"]) == (7, 1)
    assert await stage.phase("a") == "Running"


async def test_always_restarts_what_succeeds_too(stage: Stage) -> None:
    await stage.run("a", "sleep 1", restartPolicy="Always")
    await stage.clock.sleep(20)
    assert await stage.phase("a") == "Running"
    assert (await stage.statuses("a"))["main"]["restartCount"] == 2


async def test_init_containers_run_one_after_the_other_before_the_rest(stage: Stage) -> None:
    init = [container("first", "sleep 3"), container("second", "sleep 3")]
    await stage.run("a", "sleep 5", initContainers=init)
    await stage.clock.sleep(3)
    assert await stage.phase("a") == "Pending"
    assert (await stage.condition("a", "Initialized"))["status"] == "False"
    assert (await stage.statuses("a"))["main"]["state"]["waiting"]["reason"] == "PodInitializing"
    await stage.clock.sleep(6)
    assert await stage.phase("a") == "Running"
    assert (await stage.condition("a", "Initialized"))["status"] == "True"
    assert stage.started() == ["first", "second", "main"]


async def test_a_failing_init_container_fails_a_pod_that_never_restarts(stage: Stage) -> None:
    await stage.run("a", "sleep 5", initContainers=[container("first", "exit 9"), container("second", "true")])
    await stage.clock.sleep(5)
    assert await stage.phase("a") == "Failed"
    assert (await stage.statuses("a", init=True))["first"]["state"]["terminated"]["exitCode"] == 9
    assert stage.started() == ["first"]


async def test_a_failing_init_container_is_restarted_where_the_pod_may(stage: Stage) -> None:
    notes = {f"{EXIT_CODE}.first": "1,1,0"}
    await stage.run("a", "sleep 5", initContainers=[container("first", "true")], annotations=notes, restartPolicy="OnFailure")
    await stage.clock.sleep(6)
    assert await stage.phase("a") == "Pending"
    assert (await stage.statuses("a", init=True))["first"]["restartCount"] == 1
    await stage.clock.sleep(20)
    assert await stage.phase("a") == "Succeeded"
    assert (await stage.statuses("a", init=True))["first"]["restartCount"] == 2


async def test_a_sidecar_starts_first_and_ends_after_the_main_containers(stage: Stage) -> None:
    sidecar = container("beside", "trap 'exit 0' TERM; sleep infinity", restartPolicy="Always")
    await stage.run("a", "sleep 5", initContainers=[sidecar])
    await stage.clock.sleep(3)
    assert stage.started() == ["beside", "main"]
    await stage.clock.sleep(7)
    assert await stage.phase("a") == "Succeeded"
    assert stage.pool.records.running() == []


async def test_a_sidecar_that_fails_is_restarted_and_fails_nothing(stage: Stage) -> None:
    sidecar = container("beside", "sleep 2; exit 1", restartPolicy="Always")
    await stage.run("a", "sleep 8", initContainers=[sidecar])
    await stage.clock.sleep(15)
    assert await stage.phase("a") == "Succeeded"
    assert (await stage.statuses("a", init=True))["beside"]["restartCount"] == 1


async def test_a_probe_keeps_a_container_from_being_ready_at_first(stage: Stage) -> None:
    probed = container("main", "sleep 60", readinessProbe={"tcpSocket": {"port": 80}, "initialDelaySeconds": 10})
    await stage.run("a", "", containers=[probed])
    await stage.clock.sleep(5)
    assert await stage.phase("a") == "Running"
    assert (await stage.condition("a", "Ready"))["status"] == "False"
    await stage.clock.sleep(8)
    assert (await stage.condition("a", "Ready"))["status"] == "True"
    assert (await stage.statuses("a"))["main"]["ready"] is True


async def test_a_probe_that_fails_never_makes_it_ready(stage: Stage) -> None:
    await stage.run("a", "", containers=[container("main", "sleep 60", readinessProbe={"exec": {"command": ["false"]}})])
    await stage.clock.sleep(50)
    assert (await stage.condition("a", "Ready"))["status"] == "False"


async def test_sigterm_is_handled_as_the_script_says(stage: Stage) -> None:
    await stage.run("a", "trap 'sleep 4; exit 5' TERM; sleep 600")
    await stage.run("b", "", containers=[container("main", "sleep 600", lifecycle={"preStop": {"sleep": {"seconds": 8}}})])
    await stage.clock.sleep(3)
    for name in ("a", "b"):
        await stage.port.delete(kinds.POD, name, namespace="default")
    await stage.clock.sleep(3)
    assert (await stage.phase("a"), await stage.phase("b")) == ("Running", "Running")
    await stage.clock.sleep(2)
    assert (await stage.phase("a"), await stage.phase("b")) == ("", "Running")
    await stage.clock.sleep(5)
    assert await stage.phase("b") == ""
    assert [record.exit_code for record in stage.pool.records] == [5, 143]


async def test_a_second_deletion_shortens_the_grace(stage: Stage) -> None:
    await stage.run("a", "trap '' TERM; sleep 600", terminationGracePeriodSeconds=300)
    await stage.clock.sleep(3)
    await stage.port.delete(kinds.POD, "a", namespace="default")
    await stage.clock.sleep(60)
    assert await stage.phase("a") == "Running"
    await stage.port.delete(kinds.POD, "a", namespace="default", grace_seconds=5)
    await stage.clock.sleep(7)
    assert await stage.phase("a") == ""
    assert [record.exit_code for record in stage.pool.records] == [137]


async def test_a_pod_deleted_while_it_starts_ends_without_ever_running(stage: Stage) -> None:
    await stage.run("a", "sleep 600")
    await stage.clock.sleep(0.1)
    await stage.port.delete(kinds.POD, "a", namespace="default")
    await stage.clock.sleep(3)
    assert await stage.phase("a") == ""
    assert len(stage.pool.records) == 0


async def test_a_pod_that_is_deleted_while_its_node_reboots_goes_all_the_same(stage: Stage) -> None:
    await stage.run("a", "sleep 600")
    await stage.clock.sleep(3)
    stage.pool.kubelets["n-0"].power_off()
    await stage.port.delete(kinds.POD, "a", namespace="default")
    stage.pool.reboot("n-0")
    await stage.clock.sleep(120)
    assert await stage.phase("a") == ""


async def test_a_deadline_fails_the_pod(stage: Stage) -> None:
    await stage.run("a", "sleep 600", activeDeadlineSeconds=10)
    await stage.clock.sleep(15)
    pod = await stage.pod("a")
    assert pod is not None
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_node_under_pressure_evicts_and_leaves_a_failed_pod(stage: Stage) -> None:
    await stage.run("a", "sleep 600")
    await stage.clock.sleep(3)
    stage.pool.evict("a")
    await stage.clock.sleep(3)
    pod = await stage.pod("a")
    assert pod is not None
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    assert (await stage.condition("a", "DisruptionTarget"))["reason"] == "TerminationByKubelet"
    assert [record.exit_code for record in stage.pool.records] == [137]


async def test_the_eviction_api_leaves_its_condition_and_deletes(stage: Stage) -> None:
    await stage.run("a", "trap 'sleep 5' TERM; sleep 600")
    await stage.clock.sleep(3)
    path = "/api/v1/namespaces/default/pods/a/eviction"
    with pytest.raises(errors.Conflict):
        await stage.port.request("POST", path, body={"deleteOptions": {"preconditions": {"uid": "another"}}})
    await stage.port.request("POST", path, body={"metadata": {"name": "a"}})
    await stage.clock.sleep(3)
    pod = await stage.pod("a")
    assert pod is not None and pod["metadata"]["deletionTimestamp"]
    assert (await stage.condition("a", "DisruptionTarget"))["reason"] == "EvictionByEvictionAPI"
    await stage.clock.sleep(5)
    assert await stage.phase("a") == ""


async def test_pods_leave_a_tainted_node_each_after_its_own_toleration(stage: Stage) -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    await stage.run("soon", "sleep 9000", cpu="500m", tolerations=[{**unreachable, "tolerationSeconds": 30}])
    await stage.run("later", "sleep 9000", cpu="500m")
    await stage.run("stays", "sleep 9000", cpu="500m", tolerations=[unreachable])
    await stage.clock.sleep(3)
    stage.pool.lose("n-0")
    await stage.clock.sleep(75)
    assert (await stage.condition("soon", "DisruptionTarget"))["reason"] == "DeletionByTaintManager"
    assert await stage.condition("later", "DisruptionTarget") == {}
    await stage.clock.sleep(300)
    assert (await stage.condition("later", "DisruptionTarget"))["reason"] == "DeletionByTaintManager"
    assert await stage.condition("stays", "DisruptionTarget") == {}


async def test_the_collector_fails_what_was_on_a_node_that_is_no_more(stage: Stage) -> None:
    await stage.run("a", "sleep 9000")
    await stage.clock.sleep(3)
    seen: list[tuple[str, str]] = []

    def note(change: object) -> None:
        new = getattr(change, "new", None) or getattr(change, "old", None)
        if new is not None and new.kind == kinds.POD:
            found = [each["reason"] for each in new.doc["status"]["conditions"] if each["type"] == "DisruptionTarget"]
            seen.append((new.doc["status"]["phase"], "".join(found)))

    stage.port.server.listeners.append(note)
    stage.pool.lose("n-0")
    await stage.pool.remove("n-0")
    await stage.clock.sleep(60)
    assert await stage.phase("a") == ""
    assert seen[-1] == ("Failed", "DeletionByPodGC")
