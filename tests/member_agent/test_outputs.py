"""Values that pods leave in their termination messages reach the status of their Job, and the hub's."""

from __future__ import annotations

import pytest

from member_agent.jobs.leavings import values


@pytest.mark.parametrize(
    ("message", "wanted", "found"),
    [
        ("0.93\n", ["accuracy"], {"accuracy": "0.93"}),
        ('{"accuracy": 0.93, "model": "m-7"}', ["accuracy"], {"accuracy": "0.93"}),
        ('{"accuracy": 0.93, "model": "m-7"}', ["accuracy", "model"], {"accuracy": "0.93", "model": "m-7"}),
        ('{"shards": ["a", "b"]}', ["shards"], {"shards": '["a","b"]'}),
        ('["a", "b"]', ["shards"], {"shards": '["a", "b"]'}),
        ('{"other": 1}', ["whole"], {"whole": '{"other": 1}'}),
        ("plain words", ["a", "b"], {}),
        ("", ["a"], {}),
    ],
)
def test_a_message_is_the_value_or_an_object_of_values(message: str, wanted: list[str], found: dict[str, str]) -> None:
    assert values(message, wanted) == found
