"""A tenant with the roles of the hub's chart reaches his own namespace and nobody else's: a real authoriser says so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from apis import keys, kinds
from e2e.controlplane.fleet import Federation
from machinery import errors
from machinery.kube import KubePort
from machinery.port import Port

pytestmark = pytest.mark.issue(8)

RBAC = "rbac.authorization.k8s.io"
ROLE_BINDING = kinds.Kind(RBAC, "v1", "RoleBinding", "rolebindings")
TYPE = {"apiVersion": ROLE_BINDING.api_version, "kind": ROLE_BINDING.kind}
ROLES = ("volcano-federation:view", "volcano-federation:edit")
ANN = "ann-of-one-tenant"
LOGS = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs/train/log"


@contextlib.asynccontextmanager
async def tenant(running: Federation, namespace: str) -> AsyncIterator[Port]:
    """The hub as somebody sees it who may view and edit this namespace."""
    port = await KubePort.from_kubeconfig(str(running.hub.kubeconfig))
    try:
        for role in ROLES:
            subject = {"kind": "User", "name": ANN, "apiGroup": RBAC}
            ref = {"kind": "ClusterRole", "name": role, "apiGroup": RBAC}
            body = {**TYPE, "metadata": {"name": role.replace(":", "-")}, "subjects": [subject], "roleRef": ref}
            await port.create(ROLE_BINDING, body, namespace=namespace)
        yield port.acting_as(ANN)
    finally:
        await port.close()


async def test_a_tenant_reaches_nothing_of_another(running: Federation, namespace: str) -> None:
    async with tenant(running, namespace) as port:
        await port.list(kinds.JOB, namespace=namespace)
        await port.list(kinds.PLACEMENT_REVIEW, namespace=namespace)
        east = keys.execution_namespace("east")
        for kind, where in (
            (kinds.JOB, "default"),
            (kinds.JOB, None),
            (kinds.JOB_FLOW, "default"),
            (kinds.PLACEMENT_REVIEW, "default"),
            (kinds.RESOURCE_BINDING, "default"),
            (kinds.SECRET, "default"),
            (kinds.SECRET, keys.SYSTEM_NAMESPACE),
            (kinds.WORK, east),
            (kinds.CLUSTER_CAPACITY, east),
            (kinds.CLUSTER, None),
        ):
            with pytest.raises(errors.Forbidden):
                await port.list(kind, namespace=where)
        with pytest.raises(errors.Forbidden):
            await port.request("GET", LOGS.format("default"))


async def test_a_tenant_may_not_write_what_programs_write(running: Federation, namespace: str) -> None:
    async with tenant(running, namespace) as port:
        review = {"metadata": {"name": "asks"}, "spec": {"job": "train"}}
        with pytest.raises(errors.Forbidden):
            await port.create(kinds.PLACEMENT_REVIEW, review, namespace="default")
        for kind, body, where in (
            (kinds.RESOURCE_BINDING, {"metadata": {"name": "mine"}, "spec": {}}, namespace),
            (kinds.WORK, {"metadata": {"name": "mine"}, "spec": {}}, keys.execution_namespace("east")),
            (kinds.QUEUE, {"metadata": {"name": "mine"}, "spec": {}}, None),
            (kinds.PROPAGATION_POLICY, {"metadata": {"name": "mine"}, "spec": {}}, namespace),
        ):
            with pytest.raises(errors.Forbidden):
                await port.create(kind, body, namespace=where)
