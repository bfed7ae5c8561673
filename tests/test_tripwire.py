"""A tripwire counts the writes that match and trips once."""

from __future__ import annotations

from e2e.tripwire import Wire


def test_a_wire_trips_at_the_nth_matching_write_only() -> None:
    wire = Wire(name="bind", pattern=r"POST .*/pods/[^/]+/binding$", nth=2, after=True)
    bind = "POST /api/v1/namespaces/n/pods/p/binding"
    assert not wire.passes("POST /api/v1/namespaces/n/pods")
    assert not wire.passes(bind)
    assert wire.passes(bind)
    assert not wire.passes(bind)
    assert wire.hit == f"after write 2 of bind ({bind})"
