"""The harness itself: real pods with real exit codes, reach into closed networks, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import kwok, process, system, teardown
from e2e.controlplane.api import Api
from e2e.controlplane.fleet import Federation, WorkInUse, free_work
from e2e.controlplane.plan import Member, NodeSource
from machinery.crds import packaged

pytestmark = pytest.mark.issue(3)


def pod(name: str, *, node: str, command: str = "true", **annotations: str) -> dict[str, Any]:
    """A pod as users write them, placed by hand; it names a public image."""
    container = {"name": "main", "image": "nginx:1.14.2", "command": ["sh", "-c", command]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


async def until(api: Api, path: str, *, phases: set[str], timeout: float = 120) -> dict[str, Any]:
    async with asyncio.timeout(timeout):
        while True:
            found = await api.get(path)
            if found["status"]["phase"] in phases:
                return found
            await asyncio.sleep(0.1)


ENDED = {"Succeeded", "Failed"}


def ended(found: dict[str, Any]) -> tuple[str, int, str]:
    state = found["status"]["containerStatuses"][0]["state"]["terminated"]
    return found["status"]["phase"], state["exitCode"], state["reason"]


@contextlib.asynccontextmanager
async def api_of(federation: Federation, member: str) -> AsyncIterator[Api]:
    async with federation.members[member].api() as api:
        yield api


@pytest.mark.usefixtures("real_nodes")
async def test_pods_on_real_nodes_end_with_their_exit_codes(federation: Federation, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    commands = {"fine": "sleep 1", "wrong": "exit 3"}
    async with api_of(federation, "east") as api:
        for number, (name, command) in enumerate(commands.items(), start=1):
            await api.post(pods, pod(name, node=f"east-{number}", command=command))
        found = {name: ended(await until(api, f"{pods}/{name}", phases=ENDED)) for name in commands}
    assert found == {"fine": ("Succeeded", 0, "Completed"), "wrong": ("Failed", 3, "Error")}


@pytest.mark.usefixtures("real_nodes")
async def test_logs_and_commands_reach_pods_through_the_api_server(federation: Federation, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with api_of(federation, "west") as api:
        await api.post(path, pod("talker", node="west-1", command="echo hello; sleep 600"))
        await until(api, f"{path}/talker", phases={"Running"})
        query = "/exec?command=hostname&stdout=1&container=main"
        async with api.session.ws_connect(api.server + path + "/talker" + query, protocols=["v5.channel.k8s.io"]) as socket:
            frames = [message.data async for message in socket]
        logs = await api.raw("GET", f"{path}/talker/log")
    assert logs == b"hello\n"
    assert b"\x01talker\n" in frames


@pytest.mark.usefixtures("real_nodes")
async def test_pods_reach_each_other_across_nodes_and_nothing_outside(federation: Federation, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with api_of(federation, "east") as api:
        serve = "mkdir /www && echo served > /www/index.html && exec httpd -f -p 8080 -h /www"
        await api.post(path, pod("server", node="east-1", command=serve))
        server = await until(api, f"{path}/server", phases={"Running"})
        # nc, because wget of Debian's static busybox crashes.
        get = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {server['status']['podIP']} 8080"
        fetch = f"until {get}; do sleep 0.2; done"
        # An address of documentation: were there a way out, this would time out instead of being refused at once.
        leave = "nc -w 5 192.0.2.1 80 2>&1 | grep -q unreachable"
        await api.post(path, pod("client", node="east-2", command=f"{fetch}; {leave}"))
        client = await until(api, f"{path}/client", phases=ENDED)
        logs = await api.raw("GET", f"{path}/client/log")
    assert ended(client) == ("Succeeded", 0, "Completed")
    assert logs.endswith(b"served\n")


@pytest.mark.usefixtures("real_nodes")
async def test_containers_outlive_their_kubelet(federation: Federation, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/worker"
    east = federation.members["east"]
    async with east.api() as api:
        await api.post(path.rsplit("/", 1)[0], pod("worker", node="east-2", command="sleep 3; exit 7"))
        await until(api, path, phases={"Running"})
        east.kill_kubelet("east-2")
        east.start_kubelet("east-2")
        found = await until(api, path, phases=ENDED)
    assert ended(found) == ("Failed", 7, "Error")
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_simulated_pods_end_as_their_annotations_say(federation: Federation, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with api_of(federation, "north") as api:
        await api.post(path, pod("fine", node="north-1", **{kwok.DURATION: "300ms"}))
        await api.post(path, pod("wrong", node="north-2", **{kwok.DURATION: "300ms", kwok.EXIT_CODE: "3"}))
        await api.post(path, pod("endless", node="north-3"))
        assert ended(await until(api, f"{path}/fine", phases=ENDED)) == ("Succeeded", 0, "Completed")
        assert ended(await until(api, f"{path}/wrong", phases=ENDED)) == ("Failed", 3, "Error")
        assert (await until(api, f"{path}/endless", phases={"Running"}))["status"]["podIP"]
        await api.delete(f"{path}/endless")
        async with asyncio.timeout(20):
            while any(item["metadata"]["name"] == "endless" for item in (await api.get(path))["items"]):
                await asyncio.sleep(0.1)


async def test_nodes_offer_the_shape_that_was_asked_for(federation: Federation) -> None:
    for member in federation.members.values():
        async with member.api() as api:
            nodes = (await api.get("/api/v1/nodes"))["items"]
        assert {node["metadata"]["name"] for node in nodes} == set(member.node_names)
        for node in nodes:
            offered = node["status"]["allocatable"]
            assert offered["memory"] == f"{member.plan.shape.memory_mib // 1024}Gi"
            assert int(offered["cpu"]) * 1000 == member.plan.shape.cpu_millis
            assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == f"{member.name}-a"


def established(crd: dict[str, Any]) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    return bool(conditions["Established"] == "True")


async def test_every_api_server_serves_our_kinds(federation: Federation) -> None:
    wanted = {crd["metadata"]["name"] for crd in packaged()}
    for cluster in federation.clusters:
        async with cluster.api() as api:
            served = (await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))["items"]
        assert {crd["metadata"]["name"] for crd in served if established(crd)} >= wanted


async def test_a_user_without_rights_is_refused(federation: Federation) -> None:
    kubeconfig = federation.hub.kubeconfig_for("nobody")
    async with Api(kubeconfig) as api:
        with pytest.raises(Exception, match="403"):
            await api.get("/api/v1/nodes")


def test_a_second_run_in_the_same_place_is_refused(federation: Federation) -> None:
    with pytest.raises(WorkInUse):
        asyncio.run(Federation({}, work=federation.work, report=lambda _: None).up())
    assert teardown.running(federation.work)


# --- nothing left ----------------------------------------------------------------------------------------------------
def network_namespaces(pids: Iterable[int] | None = None) -> set[str]:
    """Of these processes, or of all."""
    numbers = ["[0-9]*"] if pids is None else [str(pid) for pid in pids]
    found = set()
    for number in numbers:
        for path in Path("/proc").glob(f"{number}/ns/net"):
            with contextlib.suppress(OSError):
                found.add(str(path.readlink()))
    return found


def processes_in(cgroups: Iterable[str]) -> set[int]:
    """Containers and what else runs in the nodes' cgroups."""
    files = [path for root in system.cgroup_roots() for name in cgroups for path in (root / name).rglob("cgroup.procs")]
    return {int(pid) for path in files for pid in path.read_text().split()}


def host_network() -> tuple[list[str], str]:
    """Names of interfaces, and the routes."""
    return sorted(path.name for path in Path("/sys/class/net").iterdir()), Path("/proc/net/route").read_text()


def traces(work: Path) -> list[str]:
    """Processes, mounts and cgroups that belong to a work directory."""
    found = [f"process {record.name}" for record in teardown.running(work)]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(work) + "/" in command:
                found.append(f"command {command}")
    found += [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if str(work) + "/" in line]
    return found


async def test_a_crashed_run_is_cleaned_by_the_next_and_leaves_nothing(federation: Federation) -> None:
    work = free_work("e2e-leftovers")
    network, own = host_network(), network_namespaces([os.getpid()])
    source = federation.members["east"].source
    crashed = Federation({"south": Member(nodes=1, source=source)}, work=work, report=lambda _: None)
    try:
        await crashed.up()
        cgroups = [node.cgroup for node in crashed.members["south"].plan.nodes]
        async with crashed.members["south"].api() as api:
            await api.post("/api/v1/namespaces/default/pods", pod("left", node="south-1", command="sleep 600"))
            await until(api, "/api/v1/namespaces/default/pods/left", phases={"Running"})
        left = teardown.running(work)
        private = network_namespaces({*(record.pid for record in left), *processes_in(cgroups)}) - own
        assert (len(private) >= 3) == (source is NodeSource.REAL)  # switch, node, pod
        assert host_network() == network
    except BaseException:
        crashed.down()
        raise
    crashed.close()

    said: list[str] = []
    after = Federation({}, work=work, report=said.append)
    try:
        await after.up()
        assert any(f"cleaning {len(left)} processes" in line for line in said)
        assert not [record for record in left if process.alive(record)]
        after.hub.stop("apiserver")
        await after.hub.start("apiserver")
    finally:
        after.down()

    assert traces(work) == []
    assert [root / name for root in system.cgroup_roots() for name in cgroups if (root / name).exists()] == []
    assert not private & network_namespaces()
    assert host_network() == network


@pytest.mark.usefixtures("real_nodes")
async def test_a_killed_node_takes_its_containers_with_it() -> None:
    members = {"south": Member(nodes=1, source=NodeSource.REAL)}
    async with Federation(members, work=free_work("e2e-kill"), report=lambda _: None) as fed:
        south = fed.members["south"]
        async with south.api() as api:
            await api.post("/api/v1/namespaces/default/pods", pod("doomed", node="south-1", command="sleep 98765"))
            await until(api, "/api/v1/namespaces/default/pods/doomed", phases={"Running"})
            south.kill_node("south-1")
            assert (await api.get("/api/v1/namespaces/default/pods/doomed"))["status"]["phase"] == "Running"
        async with asyncio.timeout(10):
            while any(b"98765" in data for data in _command_lines()):
                await asyncio.sleep(0.05)


def _command_lines() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found
