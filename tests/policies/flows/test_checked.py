"""A spec with what follows from it."""

from __future__ import annotations

import pytest

from policies.flows.checked import checked


def test_a_spec_of_the_same_bytes_is_worked_out_once() -> None:
    one, other = checked(b'{"flows": [{"name": "a"}]}'), checked(b'{"flows": [{"name": "a"}]}')
    assert one is other and one.graph is other.graph
    assert checked(b'{"flows": [{"name": "b"}]}') is not one
    assert (one.order, one.problems, one.ahead) == (("a",), (), {"a": 1.0})


def test_what_is_wrong_is_found_once_and_what_is_no_spec_is_no_value() -> None:
    (problem,) = checked(b'{"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]}').problems
    assert problem.message.endswith("a -> a")
    with pytest.raises(ValueError, match="Expected"):
        checked(b'{"flows": 5}')
