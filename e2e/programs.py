"""Our programs on a booted federation: as OS processes, each with an identity of its own, to be killed and started again.

Where `e2e.identities` has issued some, programs run under the rights of the charts. Elsewhere they are administrators, agents
and fencers also members of the agents' group, so that admission holds them; their names tell in audit logs who wrote.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from apis import keys
from e2e import channel, confined
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


def process_name(member: str, process: str) -> str:
    """`process` is "run" (the agent) or "fencer"."""
    return agent_name(member) if process == "run" else fencer_name(member)


def identity(federation: Federation, program: str, *, side: str) -> Path:
    """Where the kubeconfig of a program lies that was issued for it; `side`: "hub" or "local", the member's own API server."""
    return federation.work / "identities" / f"{program}-{side}.kubeconfig"


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
    secret = "federation-hub-webhook" if program == HUB else "member-agent-webhook"  # as in the charts
    admission = {"url": f"https://127.0.0.1:{port}", "host": "127.0.0.1", "port": port, "secret": secret, **more}
    own = {**HUB_SETTINGS, "cluster_objects": not identity(federation, HUB, side="hub").exists()} if program == HUB else {}
    place = channel.HUB if program == HUB else program.removeprefix("agent-")
    path.write_text(yaml.safe_dump({**own, "admission": admission, "channel": channel.settings(federation, place)}))
    return path


def _confined(federation: Federation) -> tuple[str, ...]:
    """Programs under the rights of the charts run as the charts' containers do, too; those that are led through a proxy of a
    test, whose files nobody else may read, do not."""
    return confined.prefix() if identity(federation, HUB, side="hub").exists() else ()


def hub_command(federation: Federation, *, kubeconfig: Path | None = None, **admission: Any) -> list[str]:
    """`kubeconfig` replaces the hub's own, for example by one that leads through a proxy; `admission` are settings of it."""
    issued = identity(federation, HUB, side="hub")
    chosen = kubeconfig or (issued if issued.exists() else federation.hub.kubeconfig_for(HUB, groups=ADMINISTRATORS))
    settings = settings_of(federation, HUB, **admission)
    confined_by = _confined(federation) if kubeconfig is None else ()
    return [*confined_by, executable("federation-hub"), "run", "--kubeconfig", str(chosen), "--config", str(settings)]


def member_command(
    federation: Federation, member: str, *, process: str, hub_kubeconfig: Path | None = None, kubeconfig: Path | None = None
) -> list[str]:
    """`process` is "run" (the agent) or "fencer"."""
    name = process_name(member, process)
    there, here = (identity(federation, name, side=side) for side in ("hub", "local"))
    hub = hub_kubeconfig or (there if there.exists() else federation.hub.kubeconfig_for(name, groups=AGENTS))
    own = federation.members[member]
    local = kubeconfig or (here if here.exists() else own.kubeconfig_for(name, groups=ADMINISTRATORS))
    where = ["--cluster", member, "--hub-kubeconfig", str(hub), "--kubeconfig", str(local)]
    settings = ["--config", str(settings_of(federation, name))] if process == "run" else []
    confined_by = _confined(federation) if hub_kubeconfig is None and kubeconfig is None else ()
    return [*confined_by, executable("member-agent"), process, *where, *settings]


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


def push_command(federation: Federation, member: str) -> list[str]:
    """One process beside the hub, with the kubeconfig as it would be mounted from the member's Secret."""
    name = agent_name(member)
    there, here = (identity(federation, name, side=side) for side in ("hub", "local"))
    hub = there if there.exists() else federation.hub.kubeconfig_for(name, groups=AGENTS)
    local = here if here.exists() else federation.members[member].kubeconfig_for(name, groups=ADMINISTRATORS)
    where = ["--cluster", member, "--hub-kubeconfig", str(hub), "--kubeconfig", str(local)]
    return [*_confined(federation), executable("member-agent"), "push", *where, "--secret", push_secret(member)]


def push_secret(member: str) -> str:
    """Namespace/name of the Secret with a push member's kubeconfig."""
    return f"{keys.execution_namespace(member)}/{member}-push"


def is_pushed(member: str) -> bool:
    """Whether this run has the member as a push member: VF_PUSH names them, or says `all`."""
    chosen = os.environ.get("VF_PUSH", "").split(",")
    return "all" in chosen or member in chosen


def processes_of(member: str) -> tuple[str, ...]:
    """Names of the processes that are a member's agent."""
    return (agent_name(member),) if is_pushed(member) else (agent_name(member), fencer_name(member))


def start_push(federation: Federation, member: str) -> Record:
    """Starts the one process of a push member, under the name of its agent."""
    return federation.programs.start(agent_name(member), command=push_command(federation, member))


def start_member(federation: Federation, member: str) -> list[Record]:
    """Agent and fencer of a member, or the one process of a push member."""
    if is_pushed(member):
        return [start_push(federation, member)]
    return [start_agent(federation, member), start_fencer(federation, member)]


def start_all(federation: Federation) -> list[Record]:
    """Hub, then every member."""
    records = [start_hub(federation)]
    for member in federation.members:
        records += start_member(federation, member)
    return records
