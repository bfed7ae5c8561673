"""Builders of views for tests of rules."""

from __future__ import annotations

from typing import Any

from apis.vectors import ResourceVector
from policies import fit
from policies.capacities import CapacityView
from policies.members import ClusterView
from policies.shapes import Gang, PodShape, Pool, Taint, Task
from policies.views import JobView


def shape(cpu: str = "1", **more: Any) -> PodShape:
    """A pod that asks for cpu, and itself."""
    return PodShape(requests=ResourceVector.from_quantities({"cpu": cpu, "pods": 1}), **more)


def gang(*tasks: tuple[str, int, PodShape], least: int | None = None) -> Gang:
    """(name, replicas, shape) each; all pods are needed unless `least` says otherwise."""
    made = tuple(Task(name, replicas, replicas if least is None else 0, each) for name, replicas, each in tasks)
    return Pool().gang(made, minimum=sum(task.replicas for task in made) if least is None else least)


def nodes(*listed: tuple[int, str], labels: dict[str, str] | None = None, taints: tuple[Taint, ...] = ()) -> fit.Rows:
    """(how many, free cpu) each, of one class."""
    kind = fit.NodeClass("0", labels or {}, taints)
    vectors = [(0, ResourceVector.from_quantities({"cpu": cpu, "pods": 110}), count) for count, cpu in listed]
    return fit.rows([kind], vectors)


def job(name: str = "train", *, of: Gang | None = None, **more: Any) -> JobView:
    """A Job in the namespace default."""
    made = of if of is not None else gang(("work", 2, shape()))
    return JobView(namespace="default", name=name, uid=f"uid-{name}", version="1", gang=made, **more)


def cluster(name: str, **more: Any) -> ClusterView:
    """A Ready cluster."""
    return ClusterView(namespace="", name=name, uid=f"object-{name}", version="1", id=f"id-{name}", ready="True", **more)


def capacity(name: str, rows: fit.Rows, *, through: int = 0, generation: int = 1, **more: Any) -> CapacityView:
    """What a cluster has published."""
    return CapacityView(
        namespace=f"karmada-es-{name}",
        name="member",
        uid=f"capacity-{name}",
        version="1",
        rows=rows,
        cluster=name,
        works_through=through,
        generation=generation,
        **more,
    )
