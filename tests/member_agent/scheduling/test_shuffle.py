"""Shuffle: whom plugins name goes, whoever waits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest

from member_agent.scheduling import actions
from member_agent.scheduling.configuration import Configuration, parse
from member_agent.scheduling.decisions import Plan
from member_agent.scheduling.planner import plan
from member_agent.scheduling.plugins.built_in import PLUGINS
from member_agent.scheduling.plugins.protocol import Plugin, Victim
from member_agent.scheduling.plugins.registry import Registry
from member_agent.scheduling.session import OpenSession
from tests.member_agent.scheduling.build import Made, frozen, gang, nodes


class Emptier(Plugin):
    """Wants node n0 empty."""

    name = "emptier"

    def victims(self) -> Iterable[Victim]:
        assert isinstance(self.session, OpenSession)
        holders = self.session.turnover.holders
        for queue in holders.queues():
            for stands in holders.of(queue, None):
                for pod in stands.pods:
                    if pod.node == "n0":
                        yield Victim(pod, 0, stands.key, queue, stands.priority)


REGISTRY = Registry(built_in=PLUGINS, actions=actions.BUILT_IN, own={"emptier": Emptier})
FLAGS = {"on": "", "off": ", enabledVictim: false"}


def by(flag: str = "on") -> Configuration:
    text = f"actions: 'allocate, backfill, shuffle'\ntiers: [{{plugins: [{{name: emptier{FLAGS[flag]}}}]}}]"
    return parse(text, known=REGISTRY.known)


def shuffled(*gangs: Made, flag: str = "on") -> Plan:
    return plan(frozen(nodes(4, 4), gangs), configuration=by(flag), registry=REGISTRY)


def test_whom_a_plugin_names_goes_and_nobody_is_kept_room_for() -> None:
    found = shuffled(gang("g", pods=2, minimum=1, on=["n0", "n1"], phase="Running"))
    assert [each.pod.name for each in found.evictions] == ["g-0"]
    assert found.evictions[0].beneficiary is None
    assert found.evictions[0].reason.code == "MovedByScheduler"
    assert not found.earmarks
    assert not shuffled(gang("g", on=["n0"], phase="Running"), flag="off").evictions


@pytest.mark.parametrize("protected", [{"hub": True}, {"preemptable": False}])
def test_hub_run_and_protected_gangs_stay(protected: dict[str, bool]) -> None:
    assert not shuffled(gang("g", on=["n0"], phase="Running", **protected)).evictions  # type: ignore[arg-type]


def test_pods_that_leave_are_not_told_to_leave_again() -> None:
    made = gang("g", on=["n0"], phase="Running")
    leaving = dataclasses.replace(made, pods=(dataclasses.replace(made.pods[0], deleting=True),))
    assert not shuffled(leaving).evictions
