"""Settings of admission: unit, default and reason each. A program without them serves no webhook and touches nothing."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from apis.keys import DEFAULT_SCHEDULER, SYSTEM_NAMESPACE
from controllers.admission.resource_groups import ResourceGroup

Seconds = Annotated[float, Field(gt=0)]
DAY = 86400.0


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Lifetimes(_Settings):
    """How long certificates live, in seconds. A part is replaced when a third of its life is left, so that months remain to
    notice a rotation that fails."""

    authority: Seconds = 3 * 365 * DAY
    """Of the authority that signs; replacing it takes two steps, so it is seldom."""
    serving: Seconds = 90 * DAY
    """Of what the server shows; replacing it is one write."""
    settle: Seconds = 3600.0
    """How long a new authority is trusted by everybody before it signs anything."""

    @model_validator(mode="after")
    def _the_serving_one_is_shorter(self) -> Self:
        if self.serving > self.authority / 2:
            raise ValueError("serving may be at most half of authority: it is signed anew while its authority lives")
        if self.settle > self.authority / 6:
            raise ValueError("settle may be at most a sixth of authority: the old one must live on meanwhile")
        return self


class LimitSettings(_Settings):
    """What one namespace may submit. Nothing is limited unless it is given: only an operator knows what is a flood."""

    pending_jobs: Annotated[int | None, Field(gt=0)] = None
    """Jobs of one namespace that may wait at once; the next one is refused."""
    jobs_per_minute: Annotated[int | None, Field(gt=0)] = None
    """Jobs that one namespace may submit in a minute, in one go or spread, at each replica."""
    largest_job: Annotated[int, Field(gt=0)] = 1 << 20
    """Bytes of a Job's manifest as JSON, with what a Work adds: larger objects are refused by etcd, and fill watch caches."""


class AdmissionSettings(_Settings):
    """The webhook server of one program."""

    enabled: bool = True
    """False: nothing is served, and configurations that we applied are removed."""
    host: str = "0.0.0.0"
    """Address to listen on: the API server calls from elsewhere."""
    port: Annotated[int, Field(ge=0, lt=65536)] = 8443
    """Port to listen on, as upstream's server; 0: any."""
    url: str = ""
    """Where the API server reaches this server (https://host:port); for programs outside of the cluster."""
    service: str = ""
    """Name of the Service in front of this server; used when there is no url."""
    service_port: Annotated[int, Field(gt=0, lt=65536)] = 443
    namespace: str = SYSTEM_NAMESPACE
    """Of the Service and of the Secret with the certificates."""
    secret: str = "volcano-admission-service"
    """Name of the Secret with the certificates; all replicas share it."""
    kinds: tuple[str, ...] | None = None
    """Plurals to serve; all of the program's when not given."""
    timeout: Annotated[int, Field(ge=1, le=10)] = 5
    """Seconds the API server waits for an answer; an answer takes milliseconds."""
    scheduler: str = DEFAULT_SCHEDULER
    """Pods with this schedulerName are ours; Jobs that name none get it."""
    more_schedulers: tuple[str, ...] = ()
    """Further names of schedulers whose pods are ours."""
    job_plugins: tuple[str, ...] = ()
    """Names of job plugins that are installed elsewhere: at the members, for a hub."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    """Pods that are sent to certain nodes."""
    queue_gates: bool = False
    """Pods may ask for the gate before their queue. Off: a scheduler must take the gate away again."""
    max_queue_depth: Annotated[int, Field(gt=0)] = 5
    fixed_root: bool = False
    """The amounts of the root queue may not be changed."""
    check_queue_pods: bool = False
    """A queue whose pods hold room may not be deleted."""
    lifetimes: Lifetimes = Lifetimes()
    check_use: bool = False
    """Whoever names a Queue or a PriorityClass must be allowed to `use` it (SubjectAccessReview). Off: installations whose
    people have no such rights go on as they did; the namespaces of a Queue hold anyway."""
    trusted: tuple[str, ...] = ("system:serviceaccount:federation-system:federation-hub",)
    """Users whose Jobs are not judged by rights and limits of the door: our own program, which makes the Jobs of flows and
    CronJobs whose writers were judged."""
    limits: LimitSettings = LimitSettings()
    most_at_once: Annotated[int, Field(gt=0)] = 256
    """Reviews answered at once; beyond, the API server is told to come again: a review may be 8 MiB, and memory is bounded."""
    pace: Seconds = 5.0
    """Least seconds between two rounds over the configurations: whoever fights us costs little."""

    @model_validator(mode="after")
    def _is_reachable(self) -> Self:
        if self.enabled and not (self.url or self.service):
            raise ValueError("admission needs url or service: where the API server reaches the webhook")
        if self.url and (urlsplit(self.url).scheme != "https" or not urlsplit(self.url).hostname):
            raise ValueError(f"url {self.url!r} is not https://host:port")
        return self

    def names(self) -> tuple[str, ...]:
        """Host names that the API server will call, as DNS names or addresses."""
        if self.url:
            return (str(urlsplit(self.url).hostname),)
        inside = f"{self.service}.{self.namespace}"
        return (f"{inside}.svc", inside, f"{inside}.svc.cluster.local")


def is_address(name: str) -> bool:
    """Whether a host name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
