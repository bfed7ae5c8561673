"""Deterministic names of children (reference/karmada.md 0.1, reference/volcano.md 1.7 and 3)."""

from __future__ import annotations

from apis import kinds

FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
MAX_LABEL = 63
"""Characters of a label value; names that pods carry as labels, or as host names, are no longer."""


def fnv32a(text: str) -> int:
    """FNV-1a, 32 bits, over UTF-8 (Fowler, Noll, Vo)."""
    value = FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return value


def binding_name(name: str, *, kind: kinds.Kind = kinds.JOB) -> str:
    """Name of the ResourceBinding of an object.

    `lower(<name>-<kind>)` as Karmada has it. Kinds whose short form belongs to a Volcano kind of the same name carry
    their group as well, so that a batch/v1 Job and a Volcano Job of one name do not share a binding.
    """
    short = f"{name}-{kind.kind}".lower().replace(":", ".")
    volcano = {kinds.JOB.kind: kinds.JOB, kinds.CRON_JOB.kind: kinds.CRON_JOB}.get(kind.kind)
    return short if volcano is None or volcano.group == kind.group else f"{short}.{kind.group}"


def work_name(name: str, *, namespace: str, kind: kinds.Kind = kinds.JOB) -> str:
    """Name of the Work of an object in any execution namespace: `<name>-<hash of namespace, name, kind>`."""
    identity = kind.kind if binding_name(name, kind=kind).endswith(kind.kind.lower()) else f"{kind.kind}.{kind.group}"
    return f"{name}-{fnv32a(f'{namespace}-{name}-{identity}'):08x}"


def pod_group_name(job: str, *, uid: str) -> str:
    """Name of the PodGroup of a Job: `<job>-<job UID>`."""
    return f"{job}-{uid}"


def pod_name(job: str, *, task: str, index: int) -> str:
    """Name of one pod of a Job: `<job>-<task>-<index>`."""
    return f"{job}-{task}-{index}"


def flow_job_name(flow: str, *, step: str) -> str:
    """Name of the Job of one step of a JobFlow: `<flow>-<step>`; where that is longer than a label value may be, its beginning
    and a hash of all of it."""
    whole = f"{flow}-{step}"
    if len(whole) <= MAX_LABEL:
        return whole
    return f"{whole[: MAX_LABEL - 9].rstrip('-.')}-{fnv32a(whole):08x}"
