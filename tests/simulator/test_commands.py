"""What commands do."""

from __future__ import annotations

import pytest

from simulator.commands import DURATION, EXIT_CODE, Outcome, outcome_of


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (["sleep", "5"], Outcome(5)),
        (["sleep", "2m"], Outcome(120)),
        (["true"], Outcome(0)),
        (["/bin/false"], Outcome(0, 1)),
        (["sh", "-c", "sleep 3 && exit 2"], Outcome(3, 2)),
        (["sh", "-c", "sleep 3; exit 2"], Outcome(3, 2)),
        (["sh", "-c", "false && sleep 9; sleep 1"], Outcome(1)),
        (["sh", "-ec", "echo 'a; b' && false || sleep 7"], Outcome(7)),
        (["sh", "-c", "echo hi\nsleep 2\nexit 4\nsleep 9"], Outcome(2, 4)),
        (["sh", "-c", "sleep infinity"], Outcome(None)),
        (["python", "train.py"], Outcome(60)),
        ([], Outcome(60)),
    ],
)
def test_commands_are_understood(command: list[str], outcome: Outcome) -> None:
    assert outcome_of({"command": command}, annotations={}, default=60) == outcome


def test_args_follow_the_command() -> None:
    assert outcome_of({"command": ["sh", "-c"], "args": ["sleep 4"]}, annotations={}, default=60) == Outcome(4)


def test_annotations_win() -> None:
    annotations = {DURATION: "7.5", EXIT_CODE: "3"}
    assert outcome_of({"command": ["true"]}, annotations=annotations, default=60) == Outcome(7.5, 3)
    assert outcome_of({"command": ["true"]}, annotations={DURATION: "forever"}, default=60) == Outcome(None)
