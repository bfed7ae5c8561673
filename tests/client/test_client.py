"""The Python client against a hub over HTTP: what a data scientist does, and what goes wrong."""

from __future__ import annotations

import ast
import asyncio
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import volcano_federation
from tests.client.fake import COMMANDS, FLOWS, JOBS, LOGS, REVIEWS, Hub, connected, served
from volcano_federation import (
    AlreadyExists,
    BadKubeconfig,
    BadManifest,
    Failed,
    Federation,
    Invalid,
    Job,
    NoAnswer,
    NotAllowed,
    NotEnded,
    NotFound,
    Place,
    Unreachable,
    sync,
)

ROOT = Path(__file__).parent.parent.parent
TRAIN = Job("train", "busybox:1.36", command="echo hello", cpu="100m", gpus=1, queue="research", max_run_time="30m")


def line(text: str, *, pod: str = "train-main-0", cluster: str = "east") -> dict[str, Any]:
    return {"type": "lines", "pod": pod, "container": "main", "cluster": cluster, "text": text}


async def test_a_job_is_submitted_watched_and_waited_for() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        job = await fed.submit(TRAIN)
        assert (str(job), job.phase) == ("Job team/train", "Pending")
        container = hub.objects[f"{JOBS}/train"]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        assert container["resources"] == {
            "requests": {"cpu": "100m", "nvidia.com/gpu": "1"},
            "limits": {"nvidia.com/gpu": "1"},
        }
        hub.passing = [lambda: hub.phase(f"{JOBS}/train", "Running"), lambda: hub.phase(f"{JOBS}/train", "Completed")]
        assert [event.object.phase async for event in fed.watch(job)] == ["Pending", "Running", "Completed"]
        ended = await fed.wait("train", check=True)
        assert ended.succeeded and ended.uid == job.uid


async def test_all_documents_are_tried_before_one_is_made() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        wrong = TRAIN.manifest()
        wrong["spec"]["tasks"][0]["replicass"] = 2
        with pytest.raises(Invalid, match=r"Job team/train: .*spec.tasks\[0\].replicass"):
            await fed.submit_all([Job("first", "busybox:1.36").manifest(), wrong])
        assert hub.objects == {}
        await fed.submit(TRAIN)
        with pytest.raises(AlreadyExists) as caught:
            await fed.submit(TRAIN)
        assert (caught.value.about, caught.value.reason) == ("Job team/train", "AlreadyExists")


async def test_the_flow_of_a_manifest_is_what_is_submitted() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        flow = await fed.submit(ROOT / "examples" / "quickstart.yaml")
        assert flow.kind.kind == "JobFlow" and f"{FLOWS}/{flow.name}" in hub.objects
        with pytest.raises(BadManifest, match="no Job and no JobFlow"):
            await fed.submit({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        with pytest.raises(BadManifest, match="2 Jobs or flows"):
            await fed.submit([Job("a", "i").manifest(), Job("b", "i").manifest()])
        for text, said in (("a: [", "cannot be read"), ("hello", "no object"), ("", "nothing is in it")):
            with pytest.raises(BadManifest, match=said):
                await fed.submit(text)


async def test_a_watch_goes_on_after_breaks_and_forgotten_changes() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        await fed.submit(TRAIN)
        hub.breaks = 2

        def forget() -> None:
            hub.phase(f"{JOBS}/train", "Running")
            hub.forget()

        hub.passing = [forget, lambda: None, lambda: hub.phase(f"{JOBS}/train", "Failed")]
        assert [event.object.phase async for event in fed.watch("train")] == ["Pending", "Running", "Failed"]
        with pytest.raises(Failed, match="Job team/train: it is Failed") as caught:
            await fed.wait("train", check=True)
        assert caught.value.reason == "Failed"


async def test_waiting_ends_with_the_time_or_the_object() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        await fed.submit(TRAIN)
        with pytest.raises(NotEnded, match="is Pending after 0 s, and goes on"):
            await fed.wait("train", timeout=0)
        hub.passing = [lambda: hub.remove(f"{JOBS}/train")]
        with pytest.raises(NotFound, match="Job team/train: it was deleted"):
            await fed.wait("train")
        with pytest.raises(NotFound):
            await fed.get("train")
        with pytest.raises(BadManifest, match="neither a Job"):
            await fed.get("pod/x")


async def test_everything_is_listed_page_by_page() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        for at in range(5):
            hub.put(f"{JOBS}/job-{at}", {"spec": {}})
        assert [job.name for job in await fed.list("jobs")] == [f"job-{at}" for at in range(5)]
        assert await fed.list("flows") == []


async def test_jobs_and_flows_are_suspended_resumed_and_deleted() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        job = await fed.submit(TRAIN)
        await fed.suspend(job)
        notes = hub.objects[f"{JOBS}/train"]["metadata"]["annotations"]
        assert notes["volcano-federation.io/suspend"] == "true"
        hub.phase(f"{JOBS}/train", "Aborted")
        await fed.resume(job)
        assert "volcano-federation.io/suspend" not in hub.objects[f"{JOBS}/train"]["metadata"]["annotations"]
        [command] = [each for path, each in hub.objects.items() if path.startswith(COMMANDS)]
        assert (command["action"], command["target"]["uid"]) == ("ResumeJob", job.uid)
        hub.put(f"{FLOWS}/night", {"spec": {}})
        await fed.suspend("flow/night")
        assert hub.objects[f"{FLOWS}/night"]["spec"]["suspend"] is True
        await fed.resume("flow/night")
        assert hub.objects[f"{FLOWS}/night"]["spec"]["suspend"] is False
        await fed.delete(job)
        assert f"{JOBS}/train" not in hub.objects


async def test_a_plan_says_where_and_an_explanation_why_not() -> None:
    hub = Hub()
    hub.answer = lambda spec: {
        "outcome": "Waits" if "job" in spec else "Starts",
        "message": "no cluster has room",
        "placements": [] if "job" in spec else [{"cluster": "east", "replicas": 1}],
        "clusters": [{"name": "west", "code": "TooBig", "text": "it needs 4 cpu of 2"}],
        "cheapest": {"changes": [{"change": "Replicas", "text": "2 pods"}], "points": 1, "starts": True},
    }
    async with connected(hub) as fed:
        plan = await fed.plan(TRAIN)
        assert (plan.outcome, plan.clusters) == ("Starts", ["east"])
        why = await fed.explain("train", relax=[{"change": "AnyNode"}])
        assert why.outcome == "Waits" and why.verdicts == {"west": "it needs 4 cpu of 2"} and why.advice == ["2 pods"]
        assert "it would start with: 2 pods" in str(why)
        assert not [path for path in hub.objects if path.startswith(REVIEWS)]  # the questions are taken away again


async def test_a_question_nobody_stamps_is_asked_again_in_our_name_and_an_absent_hub_is_named() -> None:
    hub = Hub()
    hub.answer = lambda spec: {"outcome": "Starts"} if "creator" in spec else {"reason": "Unstamped"}
    async with connected(hub) as fed:
        assert (await fed.plan(ROOT / "examples" / "quickstart.yaml")).outcome == "Starts"
        hub.answer = lambda spec: {"reason": "NotFound", "outcome": "Refused"}
        with pytest.raises(NotFound, match="Job team/none: it does not exist"):
            await fed.explain("none")
        hub.answer = None
        with pytest.raises(NoAnswer, match="is federation-hub running"):
            await fed.plan(TRAIN)


async def test_logs_of_all_pods_are_lines_without_anything_a_terminal_obeys() -> None:
    hub = Hub()
    hub.put(f"{JOBS}/train", {"spec": {}})
    hub.logs = {
        "train": [
            [
                line("2026-01-01T00:00:01.000000001Z hel"),
                line("2026-01-01T00:00:01.000000002Z other\n", pod="train-main-1", cluster="west"),
                line("lo\x1b[31m\x07\nplain\n"),
                {"type": "notice", "cluster": "north", "text": "its agent is not connected"},
                {"type": "of a later version"},
                line("2026-01-01T00:00:03Z no end"),
            ]
        ]
    }
    async with connected(hub) as fed:
        lines = [each async for each in fed.logs("train", tail=5)]
        assert [str(each) for each in lines] == [
            "[west/train-main-1/main] other",
            "[east/train-main-0/main] hello",
            "[east/train-main-0/main] plain",
            "[north] its agent is not connected",
            "[east/train-main-0/main] no end",
        ]
        assert lines[1].time == "2026-01-01T00:00:01.000000001Z" and lines[3].notice
        assert {"format": "json", "timestamps": "true", "tailLines": "5"} in hub.queries


async def test_followed_logs_go_on_after_a_move_and_give_no_line_twice() -> None:
    hub = Hub()
    hub.put(f"{JOBS}/train", {"spec": {}})
    first = [line("2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z thr")]
    again = [
        line("2026-01-01T00:00:02Z two\n2026-01-01T00:00:03Z three\n"),
        line("2026-01-01T00:00:09Z moved\n", cluster="west"),
    ]
    hub.logs = {"train": []}

    def placed() -> None:
        hub.logs["train"] = [first, again]
        hub.phase(f"{JOBS}/train", "Running")

    hub.passing = [placed, lambda: hub.phase(f"{JOBS}/train", "Completed")]
    async with connected(hub) as fed:
        texts = [each.text async for each in fed.logs("train", follow=True)]
    assert texts == ["one", "two", "three", "moved"]


async def test_logs_of_a_flow_are_those_of_its_jobs() -> None:
    hub = Hub()
    flow = hub.put(f"{FLOWS}/night", {"spec": {}})
    owner = {"ownerReferences": [{"uid": flow["metadata"]["uid"], "controller": True}]}
    hub.put(f"{JOBS}/night-a", {"metadata": dict(owner), "spec": {}})
    hub.put(f"{JOBS}/night-b", {"metadata": dict(owner), "spec": {}})
    hub.put(f"{JOBS}/other", {"spec": {}})
    hub.logs = {"night-a": [[line("a\n")]], "other": [[line("no\n")]]}
    async with connected(hub) as fed:
        lines = [each async for each in fed.logs("flow/night")]
        assert [(each.job, each.text) for each in lines if not each.notice] == [("night-a", "a")]
        assert [each.job for each in lines if each.notice] == ["night-b"]
        hub.logs = {"night-a": [[line("a\n")]], "night-b": [[line("b\n")]]}
        for name in ("night-a", "night-b"):
            hub.phase(f"{JOBS}/{name}", "Completed")
        hub.phase(f"{FLOWS}/night", "Succeed")
        followed = [each.text async for each in fed.logs("flow/night", follow=True)]
        assert sorted(followed) == ["a", "b"]


async def test_a_hub_without_a_channel_says_so() -> None:
    hub = Hub()
    hub.put(f"{JOBS}/train", {"spec": {}})
    async with connected(hub) as fed:
        for follow in (False, True):
            with pytest.raises(NotFound, match="Job team/train: this hub serves no logs"):
                [each async for each in fed.logs("train", follow=follow)]
    assert f"GET {LOGS}" in hub.seen


async def test_what_is_wrong_with_the_connection_is_an_error_that_names_it() -> None:
    hub = Hub()
    async with connected(hub) as fed:
        hub.refusals = [(403, {"reason": "Forbidden", "message": "ada may not"}, {})]
        with pytest.raises(NotAllowed, match="Job team/train: ada may not"):
            await fed.get("train")
        hub.refusals = [(429, {"message": "busy"}, {}), (429, {"message": "busy"}, {})]
        assert await fed.list() == [] and hub.pauses == [1.0, 2.0]
        hub.refusals = [(500, {"message": "x"}, {})]
        with pytest.raises(volcano_federation.ApiError) as caught:
            await fed.get("train")
        assert caught.value.code == 500
    async with Federation(Place("http://127.0.0.1:1")) as fed:
        with pytest.raises(Unreachable, match="127.0.0.1:1"):
            await fed.get("train")


async def test_the_synchronous_face_does_the_same() -> None:
    hub = Hub()

    def story(url: str) -> list[str]:
        with sync.Federation(Place(url, "team")) as fed:
            job = fed.submit(TRAIN)
            hub.objects[f"{JOBS}/train"]["status"] = {"state": {"phase": "Completed"}}
            seen = [event.object.phase for event in fed.watch(job)]
            texts = [each.text for each in fed.logs(job)]
            for each in fed.logs(job):
                texts.append(each.text)
                break
            fed.delete(job)
            with pytest.raises(NotFound):
                fed.get(job)
            return [*seen, *texts, fed.plan(TRAIN).outcome, fed.namespace]

    hub.logs = {"train": [[line("hello\n")], [line("again\n"), line("more\n")]]}
    async with served(hub) as url:
        told = await asyncio.to_thread(story, url)
    assert told == ["Completed", "hello", "again", "Starts", "team"]


async def test_kubeconfigs_are_read_as_kubectl_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    (tmp_path / "token").write_text("fresh\n")
    helper = {"command": sys.executable, "args": ["-c", 'print(\'{"status": {"token": "helped"}}\')']}
    async with served(hub) as url:
        config = tmp_path / "config"
        config.write_text(
            f"{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u, namespace: team}}}}],"
            f" clusters: [{{name: c, cluster: {{server: '{url}'}}}}], users: [{{name: u, user: {{tokenFile: token}}}}]}}"
        )
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{config}")
        fed = Federation.from_kubeconfig()
        assert fed.namespace == "team"
        async with fed:
            assert await fed.list() == []
    assert await Place(url, token_file=tmp_path / "token").authorization() == "Bearer fresh"
    assert await Place(url, helper=helper).authorization() == "Bearer helped"
    with pytest.raises(BadKubeconfig, match="there is no context 'b'; there are: a"):
        Federation.from_kubeconfig(config, context="b")
    with pytest.raises(BadKubeconfig, match="cannot be read"):
        Federation.from_kubeconfig(tmp_path / "none")
    with pytest.raises(BadKubeconfig, match="no token"):
        await Place(url, helper={"command": str(tmp_path / "none")}).authorization()
    assert "secret" not in repr(Place(url, token="secret", password=("ada", "secret")))


async def test_the_example_is_a_whole_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = Hub()
    hub.at_once, hub.answer = True, lambda spec: {"outcome": "Starts", "placements": [{"cluster": "east"}]}
    async with served(hub) as url:
        config = tmp_path / "config"
        place = f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}], contexts: [{{name: a, context: {{cluster: c}}}}]"
        config.write_text(f"{{current-context: a, {place}}}")
        monkeypatch.setenv("KUBECONFIG", str(config))
        monkeypatch.setattr(sys, "argv", ["first_flow.py", "team"])
        await asyncio.to_thread(runpy.run_path, str(ROOT / "client" / "examples" / "first_flow.py"))
    said = capsys.readouterr().out
    assert said.splitlines()[:2] == ["JobFlow first: Starts on east", "JobFlow team/first Succeed"]
    assert said.endswith("Completed\n")
    assert not [path for path in hub.objects if path.startswith((JOBS, FLOWS))]


def test_it_needs_nothing_of_the_packages_beside_it() -> None:
    needed = set()
    for module in (ROOT / "client" / "volcano_federation").glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                needed |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                needed.add((node.module or "").partition(".")[0])
    assert needed - set(sys.stdlib_module_names) == {"volcano_federation", "aiohttp", "yaml"}
