"""Turning off whatever has a say in evictions changes who goes."""

from __future__ import annotations

import pytest

from tests.member_agent.scheduling.off_evictions import EVICTING, Evicting


@pytest.mark.parametrize("case", EVICTING, ids=str)
def test_turning_it_off_changes_who_goes(case: Evicting) -> None:
    assert case.victims(case.on) != case.victims(case.off)
