"""Plans for the tests of the harness."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from e2e.controlplane.build import Programs
from e2e.controlplane.plan import FederationPlan, Member, NodeSource, plan_federation

PROGRAMS = Programs(*(Path("/bin") / name for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubelet", "kwok")))


def plan(members: Mapping[str, Member], *, work: str = "/tmp/work", automatic: NodeSource = NodeSource.REAL) -> FederationPlan:
    return plan_federation(members, run="abcde", work=Path(work), ports=itertools.count(20000), automatic=automatic)
