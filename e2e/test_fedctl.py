"""fedctl on real control planes: over its light connection, as the commands of a person."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from e2e import programs
from e2e.controlplane.fleet import Federation

pytestmark = pytest.mark.issue(8)


async def fedctl(running: Federation, *words: str, kubeconfig: Path | None = None) -> tuple[int, str]:
    """Exit code and everything that was said."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig or running.hub.kubeconfig), "COLUMNS": "160", "TERM": "dumb"}
    process = await asyncio.create_subprocess_exec(
        programs.executable("fedctl"),
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_a_job_is_submitted_seen_stopped_and_deleted(running: Federation, namespace: str) -> None:
    where = ("-n", namespace)
    code, said = await fedctl(running, "submit", "quick", "--image", "busybox:1.36", "--cpu", "10m", *where, "--", "sleep 300")
    assert (code, said.strip()) == (0, "job/quick made")
    for _ in range(90):
        code, said = await fedctl(running, "get", "jobs", "quick", *where, "-o", "json")
        if (json.loads(said).get("status") or {}).get("state", {}).get("phase") == "Running":
            break
        await asyncio.sleep(1)
    code, said = await fedctl(running, "get", "jobs", *where, "-o", "wide")
    assert code == 0 and "Running" in said and "1/1" in said and "CLUSTERS" in said
    code, said = await fedctl(running, "describe", "job/quick", *where)
    assert code == 0 and "Clusters:" in said and "busybox:1.36" in said
    assert (await fedctl(running, "abort", "quick", *where))[0] == 0
    assert (await fedctl(running, "wait", "quick", "--timeout", "90", *where))[0] == 1
    code, said = await fedctl(running, "delete", "quick", *where)
    assert code == 0 and "deleted" in said
    code, said = await fedctl(running, "get", "jobs", "quick", *where)
    assert code == 4 and f"there is no Job quick in namespace {namespace}" in said


async def test_mistakes_are_sentences(running: Federation, namespace: str, tmp_path: Path) -> None:
    nobody = running.hub.kubeconfig_for("nobody")
    code, said = await fedctl(running, "get", "jobs", "-n", namespace, kubeconfig=nobody)
    assert code == 7 and "not allowed" in said and "Traceback" not in said
    stale = tmp_path / "stale"
    text = running.hub.kubeconfig.read_text()
    stale.write_text(text[: text.index("users:")] + "users: [{name: hub, user: {token: an-old-token}}]\n" + _contexts(text))
    code, said = await fedctl(running, "get", "jobs", kubeconfig=stale)
    assert code == 7 and "expired" in said and "Traceback" not in said
    bad = tmp_path / "job.yaml"
    bad.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: bad}\nspec: {queue: nowhere, tasks: [{name: a, "
        "template: {spec: {containers: [{name: c, image: i}]}}}]}\n"
    )
    code, said = await fedctl(running, "submit", "-f", str(bad), "-n", namespace)
    assert code == 6 and "nowhere" in said and "nothing was made" in said and "Traceback" not in said


def _contexts(text: str) -> str:
    return text[text.index("contexts:") :]


async def test_top_and_queues_show_the_whole_federation(running: Federation) -> None:
    code, said = await fedctl(running, "top", "clusters")
    assert code == 0 and all(name in said for name in running.members)
    code, said = await fedctl(running, "queue", "list")
    assert code == 0 and "default" in said and "Open" in said
