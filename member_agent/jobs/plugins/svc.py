"""svc: the pods of a Job find each other by name, and know how many they are.

A headless Service named like the Job gives every pod a name in DNS; a ConfigMap lists the hosts of each task and follows
scaling; variables hold the same lists as they were when the pod was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apis import keys, kinds
from member_agent.jobs.facts import JobFacts, TaskFacts
from member_agent.jobs.plugins.arguments import flag, read
from member_agent.jobs.plugins.draft import EVERY, Draft
from member_agent.jobs.plugins.protocol import Child, KeyMaker, Plugin, object_of

MOUNT_PATH: Final = "/etc/volcano"


@dataclass(frozen=True)
class _Arguments:
    publish_not_ready: bool = flag("publish-not-ready-addresses", False)
    no_network_policy: bool = flag("disable-network-policy", False)
    inject_hosts: bool = flag("inject-hosts-env", True)


class Svc(Plugin):
    """Service, hosts and a network of the Job's own."""

    name = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        self._given = read(_Arguments, arguments, plugin=self.name)

    def problems(self, job: JobFacts) -> Iterator[str]:
        if "." in job.name:
            yield f"metadata.name {job.name!r} has a dot in it and can be no part of a host name"

    def objects(self, job: JobFacts, *, keys: KeyMaker) -> Iterator[Child]:
        yield Child(kinds.CONFIGMAP, _map_name(job), lambda: _config_map(job), follows=True, plugin=self.name)
        yield Child(kinds.SERVICE, job.name, lambda: self._service(job), plugin=self.name)
        if not self._given.no_network_policy:
            yield Child(kinds.NETWORK_POLICY, job.name, lambda: _network_policy(job), plugin=self.name)

    def change_task(self, draft: Draft, *, job: JobFacts, task: TaskFacts) -> None:
        draft.spec["subdomain"] = draft.spec.get("subdomain") or job.name
        if self._given.inject_hosts:
            draft.set_env(_env(job), *EVERY)
        name = _map_name(job)
        draft.add_volume({"name": name, "configMap": {"name": name}})
        draft.mount({"name": name, "mountPath": MOUNT_PATH}, *EVERY)

    def change_pod(self, draft: Draft, *, job: JobFacts, task: TaskFacts, index: int) -> None:
        draft.spec["hostname"] = draft.spec.get("hostname") or draft.name

    def _service(self, job: JobFacts) -> dict[str, Any]:
        # A Service without ports is refused by some API servers; nobody listens on this one.
        port = {"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}
        spec = {
            "clusterIP": "None",
            "selector": _selector(job),
            "publishNotReadyAddresses": self._given.publish_not_ready,
            "ports": [port],
        }
        return object_of(kinds.SERVICE, job.name, job=job, spec=spec)


def hosts_key(task: str) -> str:
    """The variable, and the key of the ConfigMap, with the hosts of a task, separated by commas."""
    return f"VC_{_shouted(task)}_HOSTS"


def count_key(task: str) -> str:
    """The variable, and the key of the ConfigMap, with the number of hosts of a task."""
    return f"VC_{_shouted(task)}_NUM"


def _shouted(task: str) -> str:
    return task.replace("-", "_").upper()


def _map_name(job: JobFacts) -> str:
    return f"{job.name}-{Svc.name}"


def _selector(job: JobFacts) -> dict[str, str]:
    return {keys.JOB_NAME: job.name, keys.JOB_NAMESPACE: job.namespace}


def _env(job: JobFacts) -> list[dict[str, Any]]:
    name = _map_name(job)
    names = [each for task in job.tasks for each in (hosts_key(task), count_key(task))]
    return [{"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}} for key in names]


def _config_map(job: JobFacts) -> dict[str, Any]:
    data = {}
    for task in job.tasks.values():
        hosts = task.hosts()
        # Upstream writes the file with '_' for '-'; programs that look for the task's own name find it as well.
        for file in dict.fromkeys((task.name.replace("-", "_"), task.name)):
            data[f"{file}.host"] = "\n".join(hosts)
        data[hosts_key(task.name)] = ",".join(hosts)
        data[count_key(task.name)] = str(len(hosts))
    return object_of(kinds.CONFIGMAP, _map_name(job), job=job, data=data)


def _network_policy(job: JobFacts) -> dict[str, Any]:
    pods = {"matchLabels": _selector(job)}
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": pods}]}]}
    return object_of(kinds.NETWORK_POLICY, job.name, job=job, spec=spec)
