"""One hub and three members per run, shared by all tests; each test keeps to a namespace of its own.

east and west have real nodes where the machine can (VF_NODES = real | kwok | auto), north has kwok nodes always. The terminal
summary says which kind ran and what each issue's tests cost of their budget.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import crds, identities
from e2e.controlplane import system
from e2e.controlplane.api import ApiRefused
from e2e.controlplane.fleet import Federation, free_work
from e2e.controlplane.plan import Member, NodeShape, NodeSource
from machinery.kube import KubePort

BUDGET = 300.0
"""Seconds that the tests of one issue may take, the boot that all share apart."""
TEST_TIMEOUT = 300
"""Seconds for one test, the boot of the federation included where it comes first."""

IMAGES = Path(__file__).parent / "images"

_summary: list[str] = []
_spent: dict[str, float] = {}
_issue_of: dict[str, str] = {}


def in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine on an event loop of its own, away from those of the tests."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(asyncio.run, work).result()


# --- pytest ----------------------------------------------------------------------------------------------------------
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks at what all other tests have done")
    config.addinivalue_line("markers", "issue(number): the issue whose time budget pays for the test")
    # looptime asks for the current loop in synchronous tests as well; unset, that would make one which nobody closes.
    asyncio.set_event_loop(None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Our programs change what an API server takes: what asks an API server alone comes before they are started.
    items.sort(key=lambda item: (item.get_closest_marker("last") is not None, "running" in getattr(item, "fixturenames", ())))
    for item in items:
        item.add_marker(pytest.mark.e2e)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT))
        issue = item.get_closest_marker("issue")
        _issue_of[item.nodeid] = f"issue {issue.args[0]}" if issue is not None else "no issue"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    issue = _issue_of.get(report.nodeid)
    if issue is not None and report.when == "call":
        _spent[issue] = _spent.get(issue, 0.0) + report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("real control planes")
    for line in _summary or ["no test asked for the federation"]:
        terminalreporter.write_line(line)
    for issue, seconds in sorted(_spent.items()):
        over = "" if seconds <= BUDGET else "  OVER BUDGET"
        terminalreporter.write_line(f"{issue}: {seconds:.0f} s of {BUDGET:.0f} s{over}")


# --- the federation --------------------------------------------------------------------------------------------------
def shared_members() -> dict[str, Member]:
    """Two small members, as real as the machine allows, and a larger simulated one."""
    small = NodeShape(cpu_millis=min(2000, system.machine().cpu_millis), memory_mib=2048)
    large = NodeShape(cpu_millis=16_000, memory_mib=65_536)
    return {
        "east": Member(nodes=2, shape=small, labels={"topology.kubernetes.io/zone": "east-a"}),
        "west": Member(nodes=2, shape=small, labels={"topology.kubernetes.io/zone": "west-a"}),
        "north": Member(nodes=20, source=NodeSource.KWOK, shape=large, labels={"topology.kubernetes.io/zone": "north-a"}),
    }


def image_table() -> list[dict[str, Any]]:
    """Which public images are answered with which folder of IMAGES."""
    table: list[dict[str, Any]] = yaml.safe_load((IMAGES / "table.yaml").read_text())
    return [{**each, "folder": str(IMAGES / each["folder"])} for each in table]


@pytest.fixture(scope="session")
def federation(pytestconfig: pytest.Config) -> Iterator[Federation]:
    """One hub and the members east, west and north, with our CRDs, without our programs."""
    reporter: Any = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    capture: Any = pytestconfig.pluginmanager.get_plugin("capturemanager")

    def report(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    fed = Federation(shared_members(), work=free_work("e2e"), images=image_table(), audit=True, report=report)

    async def boot() -> None:
        await fed.up()
        await crds.install(fed.clusters)

    started = time.monotonic()
    try:
        in_thread(boot())
        choice = fed.choice
        if choice is not None:
            _summary.append(f"nodes of east and west: {choice.source} ({choice.why}); nodes of north: kwok")
        _summary.append(f"hub and {len(fed.members)} members booted in {time.monotonic() - started:.1f} s; logs in {fed.work}")
        yield fed
    finally:
        fed.down()


@pytest.fixture(scope="session")
def running(federation: Federation) -> Federation:
    """The federation with hub, agents and fencers running as processes under the rights of the charts; a test that kills one
    starts it again."""

    async def start() -> None:
        await identities.issue(federation)
        await identities.start(federation)

    in_thread(start())
    return federation


@pytest.fixture
def real_nodes(federation: Federation) -> None:
    """Skips where pods are not processes, and says why."""
    if federation.members["east"].source is not NodeSource.REAL:
        pytest.skip(f"needs real kubelets: {federation.choice.why if federation.choice else ''}")


@pytest.fixture
async def hub_port(federation: Federation) -> AsyncIterator[KubePort]:
    """The hub through our own port, as administrator."""
    port = await KubePort.from_kubeconfig(str(federation.hub.kubeconfig))
    yield port
    await port.close()


@pytest.fixture
async def member_ports(federation: Federation) -> AsyncIterator[dict[str, KubePort]]:
    """Every member through our own port, as administrator."""
    ports = {name: await KubePort.from_kubeconfig(str(member.kubeconfig)) for name, member in federation.members.items()}
    yield ports
    for port in ports.values():
        await port.close()


def namespace_name(test: str, *, moment: float) -> str:
    """A valid, readable name: the test's, shortened, and when it ran."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower()).strip("-")[:40].strip("-")
    return f"{slug}-{int(moment * 10) % 10_000_000}"


@pytest.fixture
async def namespace(federation: Federation, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the test's own, at the hub and at every member, deleted afterwards."""
    name = namespace_name(request.node.name, moment=time.time())
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    for cluster in federation.clusters:
        async with cluster.api() as api:
            await api.post("/api/v1/namespaces", body)
            await _wait_account(api.get, name)
    yield name
    for cluster in federation.clusters:
        async with cluster.api() as api:
            await api.delete(f"/api/v1/namespaces/{name}")


async def _wait_account(get: Any, namespace: str) -> None:
    """Pods are refused until the namespace has its service account."""
    async with asyncio.timeout(20):
        while True:
            try:
                await get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
                return
            except ApiRefused:
                await asyncio.sleep(0.05)
