"""Our CRDs on real API servers, applied as `kubectl apply --server-side` would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.api import Api

FOLDER = Path(__file__).resolve().parents[1] / "apis" / "crds"
ESTABLISH_TIMEOUT = 30.0
"""Seconds within which an API server must serve a kind it was given."""
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def read() -> list[dict[str, Any]]:
    """All CRDs of the checkout."""
    return [document for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text()) if document]


def established(crd: dict[str, Any]) -> bool:
    """Whether the API server serves it."""
    return any(c["type"] == "Established" and c["status"] == "True" for c in (crd.get("status", {}).get("conditions") or ()))


async def apply(api: Api) -> None:
    """Applies every CRD and waits until all are served; TimeoutError names nothing, the API server's log does."""
    crds = read()

    async def one(crd: dict[str, Any]) -> None:
        query = "?fieldManager=e2e&force=true"
        path = f"{PATH}/{crd['metadata']['name']}"
        await api.raw("PATCH", path + query, body=crd, content_type="application/apply-patch+yaml")
        while not established(await api.get(path)):
            await asyncio.sleep(0.1)

    async with asyncio.timeout(ESTABLISH_TIMEOUT), asyncio.TaskGroup() as group:
        for crd in crds:
            group.create_task(one(crd))
