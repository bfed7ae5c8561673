"""A small hub over real HTTP: objects, watches, reviews that are answered, logs that were written down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from volcano_federation import Federation, Place

Doc = dict[str, Any]
LOGS = "/apis/channel.volcano-federation.io/v1alpha1"
REVIEWS = "/apis/volcano-federation.io/v1alpha1/namespaces/team/placementreviews"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs"
FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/team/jobflows"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/team/commands"


class Hub:
    """What it holds, by path of the object. `seen`: every request as `METHOD path`; `pauses`: what the client let pass;
    `passing`: what happens meanwhile, one after the other."""

    def __init__(self) -> None:
        self.objects: dict[str, Doc] = {}
        self.version = 0
        self.seen: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.pauses: list[float] = []
        self.passing: list[Callable[[], None]] = []
        self.answer: Callable[[Doc], Doc] | None = lambda spec: {"outcome": "Starts"}
        self.logs: dict[str, list[list[Doc]]] = {}
        """Answers to be given about a Job, one after the other, each a list of records."""
        self.refusals: list[tuple[int, Doc, dict[str, str]]] = []
        """Given instead of the next answers."""
        self.at_once = False
        """Whether Jobs and flows end well as soon as they are made."""
        self.breaks = 0
        """So many watches break off at once."""
        self._history: list[tuple[str, str, Doc]] = []
        self._told = asyncio.Event()

    # --- what others do ----------------------------------------------------------------------------------------------

    def put(self, path: str, document: Doc) -> Doc:
        """As a write by somebody else."""
        change = "MODIFIED" if path in self.objects else "ADDED"
        self.version += 1
        meta = document.setdefault("metadata", {})
        meta |= {"name": path.rpartition("/")[2], "namespace": "team", "resourceVersion": str(self.version)}
        meta.setdefault("uid", f"uid-{self.version}")
        self.objects[path] = document
        self._tell(change, path, document)
        return document

    def phase(self, path: str, phase: str) -> None:
        """The object goes into a phase."""
        old = self.objects[path]
        self.put(path, {**old, "metadata": dict(old["metadata"]), "status": {"state": {"phase": phase}}})

    def remove(self, path: str) -> None:
        """The object goes."""
        self.version += 1
        self._tell("DELETED", path, self.objects.pop(path))

    def _tell(self, change: str, path: str, document: Doc) -> None:
        self._history.append(
            (change, path, {**document, "metadata": {**document["metadata"], "resourceVersion": str(self.version)}})
        )
        told, self._told = self._told, asyncio.Event()
        told.set()

    def forget(self) -> None:
        """What changed so far is no longer kept for watches."""
        self._history = [("FORGOTTEN", "", {"metadata": {"resourceVersion": str(self.version)}})]

    async def sleep(self, seconds: float) -> None:
        """The client lets time pass."""
        self.pauses.append(seconds)
        if self.passing:
            self.passing.pop(0)()
        await asyncio.sleep(0)

    # --- what the client asks ----------------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every request."""
        self.seen.append(f"{request.method} {request.path}")
        self.queries.append(dict(request.query))
        if self.refusals:
            code, body, headers = self.refusals.pop(0)
            return web.json_response(body, status=code, headers=headers)
        if request.path.endswith("/log"):
            return await self._log(request)
        if request.path == LOGS:
            return web.json_response({}) if self.logs else _no(404, "NotFound", "the server could not find the resource")
        if request.query.get("watch"):
            return await self._watch(request)
        return await {"GET": self._get, "POST": self._create, "PATCH": self._patch, "DELETE": self._delete}[request.method](
            request
        )

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        name = request.path.rpartition("/")[2]
        if name not in ("jobs", "jobflows"):
            return _no(404, "NotFound", f'"{name}" not found')
        found = [each for path, each in sorted(self.objects.items()) if path.startswith(f"{request.path}/")]
        start, limit = int(request.query.get("continue", "0")), 2
        more = {"continue": str(start + limit)} if start + limit < len(found) else {}
        return web.json_response({"metadata": more, "items": found[start : start + limit]})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if request.path.endswith("selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": "ada", "groups": ["people"]}}})
        meta = body["metadata"]
        path = f"{request.path}/{meta.get('name') or meta['generateName'] + str(self.version)}"
        if path in self.objects:
            return _no(409, "AlreadyExists", f'"{meta["name"]}" already exists')
        if "replicass" in json.dumps(body) and request.query.get("fieldValidation") == "Strict":
            return _no(400, "BadRequest", 'strict decoding error: unknown field "spec.tasks[0].replicass"')
        if request.query.get("dryRun"):
            return web.json_response(body, status=201)
        made = self.put(path, body)
        if self.at_once and request.path in (JOBS, FLOWS):
            self.phase(path, "Completed" if request.path == JOBS else "Succeed")
        if request.path == REVIEWS and self.answer is not None:
            self.put(path, {**made, "status": {"answeredAt": "2026-01-01T00:00:00Z", **self.answer(body["spec"])}})
        return web.json_response(made, status=201)

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.put(request.path, _merge(self.objects[request.path], await request.json())))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return _no(404, "NotFound", "not found")
        self.remove(request.path)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if self.breaks:
            self.breaks -= 1
            return response
        path = f"{request.path}/{request.query['fieldSelector'].removeprefix('metadata.name=')}"
        since = int(request.query["resourceVersion"])
        while True:
            told = self._told
            for change, where, document in list(self._history):
                version = int(document["metadata"]["resourceVersion"])
                if change == "FORGOTTEN" and version > since:
                    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                    await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                    return response
                if where == path and version > since:
                    await response.write(json.dumps({"type": change, "object": document}).encode() + b"\n")
                since = max(since, version)
            if self.passing:
                self.passing.pop(0)()
                continue
            await told.wait()

    async def _log(self, request: web.Request) -> web.StreamResponse:
        name = request.path.split("/")[-2]
        if not self.logs:
            return _no(404, "NotFound", "the server could not find the requested resource")
        answers = self.logs.get(name)
        if not answers:
            return _no(409, "Conflict", f"Job team/{name} waits and has no pods yet")
        response = web.StreamResponse()
        await response.prepare(request)
        for record in answers.pop(0):
            await response.write(json.dumps(record).encode() + b"\n")
        return response


def _merge(old: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _no(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


@asynccontextmanager
async def served(hub: Hub) -> AsyncIterator[str]:
    """The address of the hub."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hub.handle)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


@asynccontextmanager
async def connected(hub: Hub) -> AsyncIterator[Federation]:
    """A client of it, in the namespace team."""
    async with served(hub) as url, Federation(Place(url, "team", token="secret"), sleep=hub.sleep) as fed:
        yield fed
