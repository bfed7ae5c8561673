from __future__ import annotations

import pytest

from e2e.controlplane import system
from e2e.controlplane.plan import NodeSource
from e2e.controlplane.system import Probe, WrongMachine, decide

FINE = [Probe("namespaces", ""), Probe("overlayfs", "")]
NO_ROOT = [Probe("root", "namespaces and cgroups need root")]
NO_RUNC = [Probe("package runc", "runc is not installed")]


@pytest.mark.parametrize("wanted", ["", "auto", "real"])
def test_real_nodes_where_every_probe_passes(wanted: str) -> None:
    assert decide(wanted, probes=FINE, debian_root=True).source is NodeSource.REAL


def test_kwok_when_asked_for() -> None:
    choice = decide("kwok", probes=FINE, debian_root=True)
    assert (choice.source, choice.why) == (NodeSource.KWOK, "asked for by VF_NODES=kwok")


def test_kwok_where_the_machine_cannot_and_the_reason_is_said() -> None:
    choice = decide("auto", probes=NO_ROOT, debian_root=False)
    assert choice.source is NodeSource.KWOK
    assert "root: namespaces and cgroups need root" in choice.why


def test_asking_for_real_nodes_where_they_cannot_be_is_an_error() -> None:
    with pytest.raises(WrongMachine, match="need root"):
        decide("real", probes=NO_ROOT, debian_root=False)


def test_falling_back_for_packages_that_could_be_installed_is_an_error() -> None:
    with pytest.raises(WrongMachine, match="runc is not installed"):
        decide("auto", probes=NO_RUNC, debian_root=True)


def test_missing_packages_elsewhere_are_a_reason_for_kwok() -> None:
    assert decide("auto", probes=NO_RUNC, debian_root=False).source is NodeSource.KWOK


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(ValueError, match="VF_NODES='fake'"):
        decide("fake", probes=FINE, debian_root=True)


def test_missing_packages_are_found_by_what_they_bring() -> None:
    missing = system.missing_packages(system.PACKAGES, found=lambda brings: brings != "runc")
    assert [package.name for package in missing] == ["runc"]


def test_memory_is_read_as_a_kubelet_does() -> None:
    assert system.memory_total("MemTotal:       1024 kB\nMemFree: 1 kB\n") == 1 << 20
    with pytest.raises(ValueError, match="MemTotal"):
        system.memory_total("")
