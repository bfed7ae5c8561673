"""The little of CEL that the simulator speaks."""

from __future__ import annotations

import pytest

from simulator.cel import CelError, compiled

ENV = {"object": {"spec": {"number": 2}}, "groups": ("a", "b"), "name": "member-east"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 == 1 && 'a' in groups", True),
        ("'c' in groups || name.startsWith('member-')", True),
        ("!('a' in groups)", False),
        ("(has(object.spec.number) ? object.spec.number : 0) == 2", True),
        ("has(object.spec.other) ? object.spec.other : 0", 0),
        ("has(object.nothing.other)", False),
        ("object.spec.number >= 3 ? 'many' : object.spec.number > 1 ? 'some' : 'one'", "some"),
        ("true || object.spec.other", True),
        ("false && object.spec.other == 1", False),
        ("object.spec['number'] in [1, 2]", True),
        ("'number' in object.spec && object['spec']['number'] == 3", False),
        ("name in []", False),
        ("name.endsWith(\"east\") != name.contains('west')", True),
    ],
)
def test_an_expression_has_its_value(text: str, value: object) -> None:
    assert compiled(text)(ENV) == value


@pytest.mark.parametrize("text", ["object.spec.other == 1", "other", "name.size == 1", "object['other']"])
def test_a_field_that_is_not_there_is_an_error(text: str) -> None:
    with pytest.raises(CelError, match="no such key"):
        compiled(text)(ENV)


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "1 ? 2", "name.matches('x')", "a b", "has(", "#", "[1, 2", "[1 2]", "name[1"]
)
def test_what_it_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(CelError):
        compiled(text)
