"""What a member says it serves: all of it, what is installed later too, and what did not answer by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import orjson

from apis.vectors import EMPTY
from machinery.clock import Chance, Ids
from machinery.errors import ServerFailed
from machinery.port import Port
from member_agent.modes import Mode, Ruling
from member_agent.reporting import registration
from member_agent.reporting.discovery import EVERY, RETRY, Discovery
from simulator.loop import SimClock, run_virtual


class Served:
    """An API server that answers discovery. `down`: group versions that do not answer."""

    def __init__(self) -> None:
        self.kinds = {"v1": ["Pod"], "apps/v1": ["Deployment"], "metrics.k8s.io/v1beta1": ["NodeMetrics"]}
        self.down: set[str] = set()
        self.asked = 0

    async def request(self, method: str, path: str, *, body: object = None) -> bytes:
        self.asked += 1
        if path == "/version":
            return b'{"gitVersion": "v1.36.0"}'
        if path == "/apis":
            groups = [{"versions": [{"groupVersion": each}]} for each in self.kinds if each != "v1"]
            return orjson.dumps({"groups": groups})
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if version in self.down:
            raise ServerFailed("503", request=path)
        listed = [{"name": f"{each.lower()}s", "kind": each} for each in self.kinds[version]]
        return orjson.dumps({"groupVersion": version, "resources": [*listed, {"name": "pods/log", "kind": "Pod"}]})


def kinds_of(discovery: Discovery) -> set[str]:
    found = discovery.enablements or []
    return {resource["kind"] for each in found for resource in each["resources"]}


def told(discovery: Discovery) -> tuple[str, str, str]:
    """The condition that the Cluster shows."""
    status: dict[str, Any] = registration.status(
        None,
        nodes=[],
        allocated=EMPTY,
        allocating=EMPTY,
        version=discovery.version,
        enablements=discovery.enablements,
        now="2026-01-01T00:00:00Z",
        ruling=Ruling(Mode.BUILTIN),
        lacking=discovery.lacking,
    )
    found = next(each for each in status["conditions"] if each["type"] == "CompleteAPIEnablements")
    return (found["status"], found["reason"], found["message"])


def tale(tell: Callable[[Served, Discovery, SimClock], Awaitable[None]]) -> None:
    async def main(clock: SimClock, chance: Chance, ids: Ids) -> None:
        server = Served()
        await tell(server, Discovery(cast(Port, server), clock=clock), clock)

    run_virtual(main, seed=1)


def test_what_is_installed_later_is_found_at_the_next_look() -> None:
    async def tell(server: Served, discovery: Discovery, clock: SimClock) -> None:
        assert told(discovery) == ("Unknown", "DiscoveryFailed", "")
        await discovery.look()
        assert kinds_of(discovery) == {"Pod", "Deployment", "NodeMetrics"}
        assert told(discovery) == ("True", "Discovered", "")
        server.kinds["ray.io/v1"] = ["RayJob"]
        asked = server.asked
        await discovery.look()
        assert server.asked == asked, "nothing is asked before it is due"
        await clock.sleep(EVERY + 1)
        await discovery.look()
        assert "RayJob" in kinds_of(discovery)

    tale(tell)


def test_an_api_that_is_down_is_named_and_hides_nothing_else() -> None:
    async def tell(server: Served, discovery: Discovery, clock: SimClock) -> None:
        server.down = {"metrics.k8s.io/v1beta1"}
        await discovery.look()
        assert kinds_of(discovery) == {"Pod", "Deployment"}
        assert told(discovery) == ("False", "PartialDiscovery", "no answer from metrics.k8s.io/v1beta1")
        server.down = set()
        await clock.sleep(RETRY + 1)
        await discovery.look()
        assert told(discovery)[0] == "True"
        server.down = {"apps/v1"}
        await clock.sleep(EVERY + 1)
        await discovery.look()
        assert "Deployment" in kinds_of(discovery), "what was known stays"
        assert told(discovery)[0] == "False"

    tale(tell)
