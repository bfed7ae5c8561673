"""Our admission webhooks, asked in process: what a real API server asks the server of a program that always answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import jsonpatch
import orjson

from apis import kinds
from apis.kinds import Kind
from apis.scheduling import Queue
from controllers.admission import reviews
from controllers.admission.facts import Facts, read_namespace
from controllers.admission.problems import Problem
from controllers.admission.reviews import Request, Rules, Verdict
from controllers.admission.webhooks import CREATE, DELETE, UPDATE, Verb, Webhook, served
from simulator.admission import User
from simulator.cel import CelError, compiled
from simulator.store import Collection, Doc


class Objects(Protocol):
    """Where Queues and namespaces are read: the API server itself."""

    user: User
    """Whose request is being served."""

    def collection(self, kind: Kind) -> Collection:
        """Everything of one kind."""
        ...


@dataclass(frozen=True, slots=True)
class Webhooks:
    """The webhooks of these kinds before one API server."""

    objects: Objects
    webhooks: tuple[Webhook, ...]
    rules: Rules = Rules()

    @classmethod
    def before(cls, objects: Objects, *, plurals: Iterable[str], rules: Rules | None = None) -> Webhooks:
        """Those that a program serves by default."""
        chosen = rules or Rules()
        hooks = served(plurals, schedulers=chosen.schedulers, groups=chosen.groups, gates=chosen.gates)
        return cls(objects, hooks, chosen)

    def complete(self, kind: Kind, doc: Doc, old: Doc | None = None) -> Doc:
        """An object that is created, or changed (`old`), as the mutating webhooks leave it."""
        verdict = self._ask(Verb.MUTATE, kind, doc, old)
        if verdict is None or not verdict.operations:
            return doc
        patched: Doc = jsonpatch.apply_patch(doc, list(verdict.operations))
        return patched

    def problems(self, kind: Kind, doc: Doc | None, old: Doc | None) -> tuple[Problem, ...]:
        """Why an object is refused when it is created (`old` None), changed, or deleted (`doc` None)."""
        verdict = self._ask(Verb.VALIDATE, kind, doc, old)
        return verdict.problems if verdict is not None else ()

    def _ask(self, verb: Verb, kind: Kind, doc: Doc | None, old: Doc | None) -> Verdict | None:
        operation = DELETE if doc is None else CREATE if old is None else UPDATE
        for webhook in self.webhooks:
            if (webhook.kind, webhook.verb) == (kind, verb) and operation in webhook.operations:
                meta = (doc or old or {})["metadata"]
                user = self.objects.user
                where = (meta.get("namespace", ""), meta.get("name", ""))
                request = Request("in-process", operation, *where, doc, old, user.name, tuple(user.groups))
                if self._matches(webhook, request):
                    return reviews.judge(request, webhook=webhook, facts=self._facts(), rules=self.rules)
        return None

    @staticmethod
    def _matches(webhook: Webhook, request: Request) -> bool:
        env = {
            "object": request.new,
            "oldObject": request.old,
            "request": {"operation": request.operation, "namespace": request.namespace, "name": request.name},
        }
        try:
            return all(compiled(each.expression)(env) for each in webhook.conditions)
        except CelError:
            return webhook.fails

    def _facts(self) -> Facts:
        queues = {
            each.name: Queue.model_validate(orjson.loads(each.raw)) for each in self.objects.collection(kinds.QUEUE).scan(None)
        }
        spaces = [read_namespace(each.raw) for each in self.objects.collection(kinds.NAMESPACE).scan(None)]
        return Facts(queues, {each.name: each.queue for each in spaces if each.queue})
