"""Simulated nodes: what kwok is told, and the Nodes it keeps alive. The configuration is pure.

Pods run at once. One with the annotation DURATION (a Go duration such as `90s`) ends after it with the code of EXIT_CODE (0
if absent); without it a pod runs until deleted.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import yaml

from e2e.controlplane.api import Api
from e2e.controlplane.plan import ClusterPlan
from e2e.controlplane.render import node_object

DURATION: Final = "simulated.volcano-federation.io/duration"
EXIT_CODE: Final = "simulated.volcano-federation.io/exit-code"

_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}

_DELETED = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
_NOT_RUNNING = {"key": ".status.phase", "operator": "NotIn", "values": ["Running"]}
_UNHELD = {"key": ".metadata.finalizers", "operator": "DoesNotExist"}

_RUN = """
{{ $now := Now }}
conditions:
{{ range $type := list "Initialized" "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- image: {{ .image | Quote }}
  name: {{ .name | Quote }}
  ready: true
  started: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
{{ with .spec.initContainers }}
initContainerStatuses:
{{ range . }}
- image: {{ .image | Quote }}
  name: {{ .name | Quote }}
  ready: true
  restartCount: 0
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}
{{ end }}
{{ end }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) \
( or .metadata.namespace "" ) | Quote }}
phase: Running
startTime: {{ $now | Quote }}
"""

_ENDED = """
{{ $now := Now }}
{{ $annotations := or .metadata.annotations dict }}
{{ $code := CODE }}
{{ $started := or .status.startTime $now }}
conditions:
{{ range $type := list "Ready" "ContainersReady" }}
- type: {{ $type | Quote }}
  status: "False"
  reason: PodCompleted
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- image: {{ .image | Quote }}
  name: {{ .name | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $started | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
"""
_END = _ENDED.replace("CODE", f'or ( index $annotations "{EXIT_CODE}" ) "0"')
_STOP = _ENDED.replace("CODE", '"143"')
"""A deleted pod dies of SIGTERM; like a kubelet, kwok says so before the object goes."""


def _stage(
    name: str, *, expressions: list[dict[str, Any]], then: dict[str, Any], delay: dict[str, Any] | None = None
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": expressions},
        "next": then,
    }
    if delay is not None:
        spec["delay"] = delay
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def stages() -> list[dict[str, Any]]:
    """A pod's life: run, end (when it has a duration), stop and go when deleted. Nodes follow kwok's own stages."""
    running = {"key": ".status.phase", "operator": "In", "values": ["Running"]}
    duration = f'.metadata.annotations["{DURATION}"]'
    return [
        _stage(
            "pod-run",
            expressions=[_ALIVE, {"key": ".status.podIP", "operator": "DoesNotExist"}],
            then={"statusTemplate": _RUN},
        ),
        _stage(
            "pod-end",
            expressions=[_ALIVE, running, {"key": duration, "operator": "Exists"}],
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": duration}},
            then={"statusTemplate": _END},
        ),
        _stage("pod-stop", expressions=[_DELETED, running], then={"statusTemplate": _STOP}),
        _stage("pod-delete", expressions=[_DELETED, _NOT_RUNNING, _UNHELD], then={"delete": True}),
    ]


def configuration() -> str:
    """The file for `kwok --config`."""
    return yaml.safe_dump_all(stages())


async def create_nodes(api: Api, *, cluster: ClusterPlan) -> None:
    """Makes the planned Nodes, some at once."""
    gate = asyncio.Semaphore(32)

    async def create(name: str) -> None:
        async with gate:
            await api.post("/api/v1/nodes", node_object(name, shape=cluster.shape, labels=cluster.labels))

    async with asyncio.TaskGroup() as group:
        for name in cluster.kwok_nodes:
            group.create_task(create(name))
