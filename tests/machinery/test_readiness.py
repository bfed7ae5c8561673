"""When a program says that it is ready."""

from __future__ import annotations

from dataclasses import dataclass

from machinery.readiness import Heartbeat, Readiness


@dataclass
class Informers:
    synced: bool = False


def failing(readiness: Readiness) -> list[str]:
    return [name for name, check in readiness.checks.items() if not check()]


def test_a_standby_is_ready_and_a_leader_once_its_roles_run_and_have_read_what_there_is() -> None:
    readiness, informers = Readiness(), Informers()
    assert failing(readiness) == ["campaigning"]
    readiness.campaigning()
    assert failing(readiness) == []
    with readiness.leading():
        assert failing(readiness) == ["roles"]
        readiness.running([informers])
        assert failing(readiness) == ["informers"]
        informers.synced = True
        assert failing(readiness) == []
        informers.synced = False
    assert failing(readiness) == []


def test_a_heartbeat_that_stays_away_is_not_ready() -> None:
    heart = Heartbeat(patience=30.0)
    assert not heart.alive(now=0.0)
    heart.beat(now=10.0)
    assert heart.alive(now=40.0)
    assert not heart.alive(now=40.1)
