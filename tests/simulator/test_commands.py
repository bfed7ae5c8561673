"""What commands do."""

from __future__ import annotations

import pytest

from simulator.commands import DURATION, EXIT_CODE, IGNORES_TERM, Ending, Outcome, command_outcome, outcome_of


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


def test_a_trap_says_what_sigterm_does() -> None:
    def script(text: str) -> Ending:
        return outcome_of({"command": ["sh", "-c", text]}, annotations={}, default=60).term

    assert script("sleep 9") == Ending(0.5, 143)
    assert script("trap '' TERM; sleep 9").seconds is None
    assert script("trap 'sleep 3; exit 4' INT TERM && sleep 9") == Ending(3, 4)
    assert script("trap 'exit 4' INT; sleep 9") == Ending(0.5, 143)


def test_annotations_by_container_and_start() -> None:
    annotations = {f"{EXIT_CODE}.a": "1,0", EXIT_CODE: "7", f"{IGNORES_TERM}.b": "true"}

    def codes(name: str) -> list[int]:
        found = ({"name": name, "command": ["true"]} for _ in range(3))
        return [outcome_of(each, annotations=annotations, default=60, start=start).code for start, each in enumerate(found)]

    assert (codes("a"), codes("b")) == ([1, 0, 0], [7, 7, 7])
    deaf = [outcome_of({"name": name}, annotations=annotations, default=60).term.seconds is None for name in ("a", "b")]
    assert deaf == [False, True]


def test_a_quoted_text_is_left_as_the_shell_would_leave_it() -> None:
    script = 'echo "a; b && c"; echo "{\\"accuracy\\": 0.92, \\"best\\": \\"east\\"}" > /dev/termination-log'
    assert command_outcome(["sh", "-c", script], default=5).left == '{"accuracy": 0.92, "best": "east"}'
    assert command_outcome(["sh", "-c", "echo 'it''s; here' > /dev/termination-log\nsleep 2"], default=5).left == "its; here"
