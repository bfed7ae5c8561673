"""All commands of fedctl at once: each explains itself with an example, and the exit codes are those of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from fedctl import exits
from fedctl.app import app

runner = CliRunner()
PAGE = Path("docs/operations/fedctl.md")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def everything() -> list[tuple[tuple[str, ...], Any]]:
    return list(commands(typer.main.get_command(app)))


def test_every_command_says_what_it_does() -> None:
    for path, command in everything():
        assert len((command.help or "").split()) >= 3, path


def test_every_command_has_a_line_on_the_page() -> None:
    page = PAGE.read_text()
    missing = [" ".join(path) for path, _ in everything() if f"`fedctl {' '.join(path)}" not in page]
    assert not missing


def test_exit_codes_are_those_of_the_page() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| `([A-Z_]+)`", PAGE.read_text(), flags=re.M))
    known = {str(value): name for name, value in vars(exits).items() if isinstance(value, int) and name.isupper()}
    assert rows == known


def test_an_unknown_flag_is_told_with_the_nearest_right_one() -> None:
    found = runner.invoke(app, ["get", "jobs", "--namspace", "x"])
    assert found.exit_code == exits.USAGE and "--namespace" in found.output and "Traceback" not in found.output


def test_an_unknown_command_is_told_with_the_nearest_right_one() -> None:
    found = runner.invoke(app, ["submti"])
    assert found.exit_code == exits.USAGE and "submit" in found.output


def test_no_hub_a_wrong_context_and_no_kubeconfig_are_sentences(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "contexts: [{name: hub, context: {cluster: hub, user: me}}]\nclusters: [{name: hub, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: []\ncurrent-context: hub\n"
    )
    for words, says in (
        (["--kubeconfig", str(config)], "the hub cannot be reached"),
        (["--kubeconfig", str(config), "--context", "other"], "no context other; there are hub"),
        (["--kubeconfig", str(tmp_path / "missing")], "no such kubeconfig"),
        (["--kubeconfig", str(tmp_path)], "not a kubeconfig"),
    ):
        found = runner.invoke(app, ["get", "jobs", *words])
        assert found.exit_code == exits.NO_SERVER, found.output
        assert says in found.output and "Traceback" not in found.output
