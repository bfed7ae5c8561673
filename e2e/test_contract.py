"""The contract suite of the Kubernetes port, on a real API server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.controlplane.fleet import Federation

pytestmark = pytest.mark.issue(3)
CHECKOUT = Path(__file__).resolve().parents[1]


def test_the_real_api_server_keeps_the_contract(federation: Federation) -> None:
    environment = {**os.environ, "VF_CONTRACT_KUBECONFIG": str(federation.hub.kubeconfig)}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "real", "tests/contract"]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    print(done.stdout[-6000:], done.stderr[-2000:])
    assert done.returncode == 0
    assert " passed" in done.stdout
