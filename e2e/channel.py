"""The channel of the shared federation: certificates, settings of hub and agents, and the APIService before the hub's end."""

from __future__ import annotations

import base64
import random
from typing import Any, Final

import yaml

from controllers.channel.messages import GROUP, VERSION
from controllers.channel.settings import AGENTS
from e2e.controlplane import certs
from e2e.controlplane.certs import Authority
from e2e.controlplane.fleet import PORTS, Federation, free_ports

HUB: Final = "hub"
SERVICE: Final = "federation-channel"
NAMESPACE: Final = "federation-system"
VALUES: Final[dict[str, Any]] = {"settings": {"channel": {"people": {}}}}
"""What makes charts grant the rights of a channel; the settings themselves are of the programs here."""


def settings(federation: Federation, program: str) -> dict[str, Any]:
    """Settings `channel` of the hub (`program` "hub") or of the agent of a member; certificates are made when they are first
    asked for."""
    folder = federation.work / "channel"
    known = folder / "channel.yaml"
    if not known.exists():
        _make(federation)
    ports = yaml.safe_load(known.read_text())
    shown = {"certificate": str(folder / f"{program}.crt"), "key": str(folder / f"{program}.key")}
    if program != HUB:
        return {"hubs": [f"https://localhost:{ports['agents']}"], "ca": str(folder / "hub" / "ca.crt"), **shown}
    client_ca = str(folder / "agents" / "ca.crt")
    return {
        "agents": {"host": "127.0.0.1", "port": ports["agents"], "client_ca": client_ca, **shown},
        "people": {"host": "127.0.0.1", "port": ports["people"], **shown},
        "look": 5,
    }


def _make(federation: Federation) -> None:
    """An authority for what the hub shows and one for agents, and what they sign."""
    folder = federation.work / "channel"
    hub, agents = Authority(folder / "hub", name="channel"), Authority(folder / "agents", name="agents")
    names = (f"{SERVICE}.{NAMESPACE}.svc", "localhost")
    certs.write(hub.server(names=names, addresses=("127.0.0.1",)), folder=folder, name=HUB)
    for member in federation.members:
        certs.write(agents.client(member, groups=(AGENTS,)), folder=folder, name=member)
    found = free_ports(start=random.SystemRandom().randrange(len(PORTS)))
    (folder / "channel.yaml").write_text(yaml.safe_dump({"agents": next(found), "people": next(found)}))


def url(federation: Federation) -> str:
    """Where people find the hub's end past the API server."""
    return f"https://localhost:{settings(federation, HUB)['people']['port']}"


def registration(federation: Federation) -> list[dict[str, Any]]:
    """The Service that leads to the hub's end, and the APIService in front of it."""
    port = settings(federation, HUB)["people"]["port"]
    ca = (federation.work / "channel" / "hub" / "ca.crt").read_bytes()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    api = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": SERVICE, "namespace": NAMESPACE, "port": port},
            "caBundle": base64.b64encode(ca).decode(),
        },
    }
    return [service, api]
