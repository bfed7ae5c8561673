"""`fedctl cluster join`: one command is printed, with a token that is good once; nothing of an administrator's leaves."""

from __future__ import annotations

import base64
import io
import json
import shlex
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from apis import kinds
from fedctl import joining
from fedctl.flows import OK, REFUSED, Place
from fedctl.joining import Address, CannotJoin, Hub, Wish
from policies.joining import JOINERS, Token
from simulator.world import World
from tests.support.stage import play

AUTHORITY = b"-----BEGIN CERTIFICATE-----\nhub\n-----END CERTIFICATE-----\n"
HUB = Hub("https://hub.example:6443", AUTHORITY)
TOKEN = Token("abcdef", "0123456789abcdef")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """An administrator's."""
    data = base64.b64encode(AUTHORITY).decode()
    config = {
        "clusters": [{"name": "hub", "cluster": {"server": HUB.server, "certificate-authority-data": data}}],
        "users": [{"name": "admin", "user": {"token": "an-administrators-token"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "admin"}}],
        "current-context": "hub",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def values_of(command: str) -> dict[str, object]:
    """What helm would read from the command, as far as we write it."""
    words = shlex.split(command)
    found: dict[str, object] = {}
    for option, pair in zip(words, words[1:], strict=False):
        path, _, value = pair.partition("=")
        if option == "--set":
            found[path] = value.replace("\\,", ",")
        elif option == "--set-json":
            found[path] = json.loads(value)
    return found


def test_one_command_makes_a_member(kubeconfig: Path) -> None:
    async def tell(world: World) -> None:
        out, err = io.StringIO(), io.StringIO()
        desk = Place(world.client(), "", Console(file=out), Console(file=err, width=300), world.clock.now())
        wish = Wish("south", provider="example", region="eu-south", zones=("a", "b"), labels={"tier": "spot"}, mode="builtin")
        code = await joining.join(desk, wish, address=Address(kubeconfig), prices=None, life=3600.0, helm=True)
        assert code == OK
        command = out.getvalue().strip()
        assert "\n" not in command and command.startswith("helm install member-agent ")
        assert "administrator" not in command
        values = values_of(command)
        token = str(values.pop("join.token"))
        assert values == {
            "cluster": "south",
            "hub.server": HUB.server,
            "hub.caData": base64.b64encode(AUTHORITY).decode(),
            "provider": "example",
            "region": "eu-south",
            "mode": "builtin",
            "zones": ["a", "b"],
            "labels": {"tier": "spot"},
        }
        assert "before" in err.getvalue() and token not in err.getvalue()

        id, _, secret = token.partition(".")
        kept = json.loads(await world.client().get(kinds.SECRET, f"bootstrap-token-{id}", namespace="kube-system"))
        read = {name: base64.b64decode(value).decode() for name, value in kept["data"].items()}
        assert kept["type"] == "bootstrap.kubernetes.io/token" and read["token-secret"] == secret
        assert read["auth-extra-groups"] == f"{JOINERS},{JOINERS}:south"
        assert json.loads(await world.client().get(kinds.CLUSTER, "south"))["spec"]["syncMode"] == "Pull"

    play(tell)


def test_a_member_that_is_alive_keeps_its_name(kubeconfig: Path) -> None:
    async def tell(world: World) -> None:
        out, err = io.StringIO(), io.StringIO()
        desk = Place(world.client(), "", Console(file=out), Console(file=err, width=300), world.clock.now())
        name = sorted(world.members)[0]
        code = await joining.join(desk, Wish(name), address=Address(kubeconfig), prices=None, life=3600.0, helm=True)
        assert code == REFUSED and "its agent is alive: unjoin it first" in err.getvalue() and not out.getvalue()

    play(tell)


def test_prices_travel_with_the_command(tmp_path: Path) -> None:
    sheet = tmp_path / "prices.yaml"
    sheet.write_text("currency: EUR\nclasses:\n- name: gpu\n  labels: {accelerator: a100}\n  prices: {nvidia.com/gpu: '2.5'}\n")
    wish = Wish("south", prices=joining.price_sheet(sheet))
    found = values_of(joining.helm_command(wish, HUB, token=TOKEN))["priceSheet"]
    assert found == yaml.safe_load(sheet.read_text())


@pytest.mark.parametrize("text", ["", "- 1", "[", "just words"])
def test_what_is_no_price_sheet_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(CannotJoin, match="prices.yaml"):
        joining.price_sheet(tmp_path / "prices.yaml")


def test_a_hub_that_members_reach_by_another_way_is_named_by_hand(kubeconfig: Path, tmp_path: Path) -> None:
    assert joining.hub_of(kubeconfig, None) == HUB
    other = tmp_path / "ca.pem"
    other.write_bytes(b"other")
    assert joining.hub_of(kubeconfig, None, server="https://outside:443", ca=other) == Hub("https://outside:443", b"other")
    assert joining.hub_of(tmp_path / "missing", None, server="https://outside:443", ca=other).authority == b"other"


def test_a_kubeconfig_that_does_not_lead_to_a_hub_is_said(kubeconfig: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotJoin, match="--hub-server and --hub-ca"):
        joining.hub_of(tmp_path / "missing", None)
    with pytest.raises(CannotJoin, match="--hub-server and --hub-ca"):
        joining.hub_of(kubeconfig, "another-context")
    with pytest.raises(CannotJoin, match="sent in clear"):
        joining.hub_of(kubeconfig, None, server="http://hub")


def test_tokens_are_never_shown_whole_by_accident() -> None:
    assert TOKEN.secret not in repr(TOKEN)
