"""Settings of the channel: unit, default and reason each. A program without them opens no port and dials nobody.

Certificates are files, read again as they change: who issues them, and when, is not the channel's affair.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
PortNumber = Annotated[int, Field(ge=0, lt=65536)]

AGENTS = "volcano-federation:agents"
"""Organization in the certificates of agents."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServedAt(_Settings):
    """One port of the hub."""

    host: str = "0.0.0.0"
    """Address to listen on: agents and API servers call from elsewhere."""
    port: PortNumber
    """0: any free port."""
    certificate: Path
    """PEM, with what stands between it and its authority."""
    key: Path
    """PEM, without a pass phrase."""


class AgentsDoor(ServedAt):
    """Where agents dial in: mutual TLS, nobody without a certificate gets any answer."""

    port: PortNumber = 9443
    client_ca: Path
    """PEM: who signs the certificates of agents. CN is the member's name."""
    organization: str = AGENTS
    """Which O a certificate must carry, so that not everybody whom the same authority signs speaks for a member; "": none."""


class PeopleDoor(ServedAt):
    """Where people ask, behind an APIService (or directly, with a token)."""

    port: PortNumber = 9444
    front_proxy: bool = True
    """Believe an API server that shows the certificate which `extension-apiserver-authentication` speaks of."""
    tokens: bool = True
    """Have bearer tokens checked by TokenReview: for hubs whose API server cannot be given an APIService."""


class Limits(_Settings):
    """What the hub's end gives to whom, per replica."""

    at_once: Count = 500
    """Answers to people at once: each costs a few hundred KiB while it flows, and a connection."""
    per_user: Count = 200
    """Of one user."""
    per_cluster: Count = 250
    """Answers that one member is sending."""
    bytes: Count = 1 << 30
    """Of one answer; enough for the largest log a kubelet keeps by default (5 x 10 MiB) of 20 containers."""
    seconds: Seconds = 600.0
    """Of one answer that does not follow."""
    follow_seconds: Seconds = 86400.0
    """Of one that follows; whoever follows longer asks again."""
    stalled: Seconds = 120.0
    """A reader who takes nothing for so long is gone."""
    answer: Seconds = 15.0
    """A member that has said nothing to a question for so long is not waited for."""
    reviews: Count = 32
    """Requests whose token and rights the API server is asked about at once: a flood of forged tokens waits in line here."""
    questions: Count = 4
    """Probes that one member is asked at once: one that is slow holds up the flows of no other."""


class HubChannel(_Settings):
    """The hub's end."""

    agents: AgentsDoor
    people: PeopleDoor | None = None
    """None: steps are probed, and logs are not served."""
    limits: Limits = Limits()
    look: Seconds = 30.0
    """Seconds between looks at certificate files, at the API server's front proxy, and at whether members still exist."""


class AgentChannel(_Settings):
    """The member's end."""

    hubs: tuple[str, ...] = Field(min_length=1)
    """https://host:port of the hub's replicas; every address that a name has is one replica."""
    ca: Path
    """PEM: who signs the certificate that the hub shows."""
    ca_pins: tuple[str, ...] = ()
    """`sha256:<hex>` of public keys (as of kubeadm): of the authorities in `ca`, only these are believed. None: all."""
    certificate: Path
    """PEM; its CN is the member's name."""
    key: Path
    logs_at_once: Count = 128
    """Answers at once; each holds a request to the API server per container that is read."""
    containers_at_once: Count = 8
    """Logs of one answer read at once, where nobody follows them: they come one after the other anyhow."""
    followed_at_once: Count = 100
    """Containers of one answer that are followed; a larger Job is read by task or pod."""
    look: Seconds = 30.0
    """Seconds between looks at which addresses the names of `hubs` have."""
    retry: Seconds = 1.0
    """First wait before a replica is dialled again; doubles."""
    retry_limit: Seconds = 30.0
    """Longest wait."""

    @field_validator("hubs")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            parts = urlsplit(each)
            if parts.scheme != "https" or not parts.hostname or not parts.port or parts.path.strip("/"):
                raise ValueError(f"hubs: {each!r} is not https://host:port")
        return value

    @model_validator(mode="after")
    def _pins_can_be_read(self) -> Self:
        for each in self.ca_pins:
            if re.fullmatch(r"sha256:[0-9a-f]{64}", each) is None:
                raise ValueError(f"ca_pins: {each!r} is not sha256: and 64 hexadecimal digits")
        return self
