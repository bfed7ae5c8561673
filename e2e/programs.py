"""Our programs on a booted federation: as OS processes, each with an identity of its own, to be killed and started again.

Identities are administrators for now, agents and fencers also members of the agents' group, so that admission holds them; their
names tell in audit logs who wrote.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.fleet import PORTS, Federation, free_ports
from e2e.controlplane.process import Record
from federation.clusters import guard

ADMINISTRATORS = ("system:masters",)
AGENTS = (*ADMINISTRATORS, guard.AGENTS)
HUB = "federation-hub"
HUB_SETTINGS = {"silence": 25, "recovery": 1}
"""A member is given up after two lost renewals instead of four, so that a story about it takes half the time."""


def agent_name(member: str) -> str:
    return f"agent-{member}"


def fencer_name(member: str) -> str:
    return f"fencer-{member}"


def executable(name: str) -> str:
    """A program of this virtual environment."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: install the checkout into this environment (pip install -e .)")
    return str(path)


def settings_of(federation: Federation, program: str, **more: Any) -> Path:
    """Settings of a program, its webhooks among them; the port of its webhook server stays the same for the whole run. `more`
    goes into the settings of admission."""
    path = federation.work / f"settings-{program}.yaml"
    if path.exists():
        port = yaml.safe_load(path.read_text())["admission"]["port"]
    else:
        port = next(free_ports(start=random.SystemRandom().randrange(len(PORTS))))
    admission = {"url": f"https://127.0.0.1:{port}", "host": "127.0.0.1", "port": port, **more}
    path.write_text(yaml.safe_dump({**(HUB_SETTINGS if program == HUB else {}), "admission": admission}))
    return path


def hub_command(federation: Federation, *, kubeconfig: Path | None = None, **admission: Any) -> list[str]:
    """`kubeconfig` replaces the hub's own, for example by one that leads through a proxy; `admission` are settings of it."""
    chosen = kubeconfig or federation.hub.kubeconfig_for(HUB, groups=ADMINISTRATORS)
    settings = settings_of(federation, HUB, **admission)
    return [executable("federation-hub"), "run", "--kubeconfig", str(chosen), "--config", str(settings)]


def member_command(
    federation: Federation, member: str, *, process: str, hub_kubeconfig: Path | None = None, kubeconfig: Path | None = None
) -> list[str]:
    """`process` is "run" (the agent) or "fencer"."""
    name = agent_name(member) if process == "run" else fencer_name(member)
    hub = hub_kubeconfig or federation.hub.kubeconfig_for(name, groups=AGENTS)
    local = kubeconfig or federation.members[member].kubeconfig_for(name, groups=ADMINISTRATORS)
    where = ["--cluster", member, "--hub-kubeconfig", str(hub), "--kubeconfig", str(local)]
    own = ["--config", str(settings_of(federation, name))] if process == "run" else []
    return [executable("member-agent"), process, *where, *own]


def start_hub(
    federation: Federation, *, kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None
) -> Record:
    """Starts federation-hub under the name HUB; `federation.programs` kills and restarts it."""
    return federation.programs.start(HUB, command=hub_command(federation, kubeconfig=kubeconfig), environment=environment)


def start_agent(
    federation: Federation,
    member: str,
    *,
    hub_kubeconfig: Path | None = None,
    kubeconfig: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Record:
    """Starts one member's agent."""
    command = member_command(federation, member, process="run", hub_kubeconfig=hub_kubeconfig, kubeconfig=kubeconfig)
    return federation.programs.start(agent_name(member), command=command, environment=environment)


def start_fencer(
    federation: Federation, member: str, *, hub_kubeconfig: Path | None = None, environment: Mapping[str, str] | None = None
) -> Record:
    """Starts one member's fencer."""
    command = member_command(federation, member, process="fencer", hub_kubeconfig=hub_kubeconfig)
    return federation.programs.start(fencer_name(member), command=command, environment=environment)


def start_all(federation: Federation) -> list[Record]:
    """Hub, then agent and fencer of every member."""
    records = [start_hub(federation)]
    for member in federation.members:
        records += [start_agent(federation, member), start_fencer(federation, member)]
    return records
