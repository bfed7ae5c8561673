"""The threat model names a control and a test for every threat."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operations" / "security.md"


def test_every_threat_has_a_control_and_a_test_that_is_there() -> None:
    section = PAGE.read_text().split("## Threats, controls, evidence")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for threat, control, evidence in rows:
        tests = re.findall(r"`((?:tests|e2e)/[\w./]+\.py)`", evidence)
        assert control and tests, threat
        assert all((ROOT / test).is_file() for test in tests), threat
