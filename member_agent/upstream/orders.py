"""What the agent has ordered of a Job, as it is written on it, and the Commands that say it. Pure."""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec

from apis import kinds, naming
from member_agent.views import JobView

ABORT: Final = "AbortJob"
RESUME: Final = "ResumeJob"
TERMINATE: Final = "TerminateJob"
COMPLETE: Final = "CompleteJob"
RESTART: Final = "RestartJob"
ACTIONS: Final = (ABORT, RESUME, TERMINATE, COMPLETE, RESTART)
"""What a Command may ask of a whole Job (reference/volcano.md 1.6); it cannot name a task or a pod."""


class Rest(enum.StrEnum):
    """How far the agent is with a suspension: nothing of it, aborting, resuming."""

    NONE = ""
    ABORTING = "aborting"
    RESUMING = "resuming"


class Ordered(msgspec.Struct, frozen=True, omit_defaults=True):
    """The annotation. `order`: id of the hub's order that was taken up last, at `version` of the Job's status; `done`: it had
    its effect."""

    rest: Rest = Rest.NONE
    order: str = ""
    version: int = 0
    done: bool = False


class HubOrder(msgspec.Struct, frozen=True):
    """An order that came with the Work (protocol.md 2)."""

    id: str
    action: str
    target: str = ""


_ordered = msgspec.json.Decoder(Ordered).decode
_hub_order = msgspec.json.Decoder(HubOrder).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def read(text: str) -> Ordered:
    """What is written; text that somebody spoilt is as none."""
    try:
        return _ordered(text.encode()) if text else Ordered()
    except msgspec.MsgspecError:
        return Ordered()


def write(ordered: Ordered) -> str:
    """The annotation."""
    return _encode(ordered).decode()


def hub_order(text: str) -> HubOrder | None:
    """The order, None where there is none that can be read."""
    try:
        return _hub_order(text.encode()) if text else None
    except msgspec.MsgspecError:
        return None


def command(job: JobView, action: str, *, purpose: str, message: str) -> dict[str, Any]:
    """The Command. The same purpose has the same name, so that an order is not given twice while one waits."""
    target = {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    suffix = f"{naming.fnv32a(f'{job.uid}/{purpose}'):08x}"
    return {
        "apiVersion": kinds.COMMAND.api_version,
        "kind": kinds.COMMAND.kind,
        "metadata": {
            "name": f"{job.name}-{action.lower()}-{suffix}",
            "namespace": job.namespace,
            "ownerReferences": [target],
        },
        "action": action,
        "target": target,
        "reason": purpose,
        "message": message,
    }
