"""One in-memory API server: the state of one cluster, and what a write does to it.

It behaves as kube-apiserver 1.36 does towards our programs: one growing resourceVersion, optimistic concurrency, the status
subresource, generation, finalizers, graceful deletion of pods, watches with a bounded history. It outlives every actor.
All methods are synchronous and atomic; waiting and interleaving is the port's affair. Garbage collection and namespace
deletion (kube-controller-manager) are in `collector`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import orjson

from apis import kinds
from apis.kinds import Kind
from machinery import errors
from machinery.clock import Chance, Clock, Ids, stamp
from machinery.errors import FieldCause
from machinery.port import Preconditions, Propagation
from simulator import admission, deletion, documents, fields, rules, schemas, structural
from simulator.collector import Collector
from simulator.store import Change, Collection, Doc, Stored, seal
from simulator.webhooks import Webhooks

LARGEST_REQUEST = 3 * 1024 * 1024
"""Bytes of a request body that the API server reads."""

GENERATED_NAMES = 8
"""How many names are tried for one `generateName`."""


class ApiServer:
    """The objects of one cluster and the rules of writing them."""

    def __init__(self, clock: Clock, *, ids: Ids, chance: Chance, name: str = "cluster", start_version: int = 1) -> None:
        self.clock = clock
        self.ids = ids
        self.chance = chance
        self.name = name
        self.version = start_version
        self.validators: dict[Kind, list[schemas.Validator]] = {}
        for table in (schemas.BUILTIN, structural.validators(), rules.RULES):
            for kind, check in table.items():
                self.validators.setdefault(kind, []).append(check)
        self.list_keys: dict[Kind, fields.ListKeys] = {**structural.list_keys()}
        self.access: Callable[[Doc], bool] = lambda review: True
        """Answers SubjectAccessReviews, given their spec."""
        self.user = admission.User()
        """Whose request is being served; see `acting`."""
        self.webhooks: Webhooks | None = None
        """Asked about every write of an object, where there are any."""
        self.listeners: list[Callable[[Change], None]] = []
        self.snapshots: dict[tuple[Kind, str | None, int], list[Stored]] = {}
        self._collections: dict[Kind, Collection] = {}
        self.collector = Collector(self)
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})

    # --- reading -----------------------------------------------------------------------------------------------------

    def collection(self, kind: Kind) -> Collection:
        """Everything of one kind."""
        found = self._collections.get(kind)
        if found is None:
            found = self._collections[kind] = Collection(kind)
        return found

    def collections(self) -> list[Collection]:
        """All kinds that were ever used, in a stable order."""
        return [self._collections[kind] for kind in sorted(self._collections)]

    def read(self, kind: Kind, name: str, *, namespace: str | None = None) -> Stored:
        """The object; NotFound when there is none."""
        stored = self.collection(kind).get(namespace or "", name)
        if stored is None:
            raise self.failure(404, "NotFound", f'{kind.name} "{name}" not found')
        return stored

    def failure(self, code: int, reason: str, message: str, *, causes: tuple[FieldCause, ...] = ()) -> errors.ApiError:
        """The error this server answers with."""
        return errors.from_status(code=code, reason=reason, message=message, request=self.name, causes=causes)

    def compact(self) -> None:
        """Forget all history: watches from older versions and continue tokens are Expired from now on."""
        for collection in self._collections.values():
            collection.compact(self.version)
        self.snapshots.clear()

    def decode(self, body: bytes | Mapping[str, Any]) -> Any:
        """A document of this server's own from a request body."""
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        if len(raw) > LARGEST_REQUEST:
            raise self.failure(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise self.failure(400, "BadRequest", f"the body is not JSON: {error}") from error

    # --- creating ----------------------------------------------------------------------------------------------------

    def create(
        self,
        kind: Kind,
        doc: Doc,
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        owned: fields.Ownership | None = None,
    ) -> Stored:
        """Store a new object; `doc` becomes the server's own."""
        metadata = self._identify(kind, doc, namespace=namespace)
        self._check_namespace(kind, metadata)
        if metadata.get("resourceVersion"):
            raise self.failure(500, "InternalError", "resourceVersion should not be set on objects to be created")
        if self.collection(kind).get(metadata.get("namespace", ""), metadata["name"]) is not None:
            raise self.failure(409, "AlreadyExists", f'{kind.name} "{metadata["name"]}" already exists')
        strategy = schemas.traits(kind)
        for name in documents.SYSTEM_METADATA:
            metadata.pop(name, None)
        documents.drop_empty(metadata)
        metadata["uid"] = self.ids.uuid()
        metadata["creationTimestamp"] = stamp(self.clock.now())
        if strategy.generation:
            metadata["generation"] = 1
        if strategy.status and kind != kinds.NODE:  # kubelets register with their status
            doc.pop("status", None)
        if self.webhooks is not None:
            doc = self.webhooks.complete(kind, doc)
        self._validate(kind, doc, None)
        self._admit(kind, doc, None)
        self._judge(kind, doc, None)
        stored = seal(kind, doc, version=self.version if dry_run else self.version + 1, owned=owned)
        if not dry_run:
            self._commit(Change(self.version + 1, None, stored))
        return stored

    def _identify(self, kind: Kind, doc: Doc, *, namespace: str | None) -> Doc:
        self.check_type(kind, doc)
        metadata: Doc = doc.setdefault("metadata", {})
        if kind.namespaced:
            if namespace is None:
                raise self.failure(404, "NotFound", "the server could not find the requested resource")
            if metadata.setdefault("namespace", namespace) != namespace:
                self.refuse("the namespace of the provided object does not match the namespace sent on the request")
        else:
            metadata.pop("namespace", None)
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                cause = FieldCause("metadata.name", "Required value: name or generateName is required")
                self._invalid(kind, "", [cause])
            metadata["name"] = self._generate_name(kind, metadata)
        return metadata

    def _generate_name(self, kind: Kind, metadata: Doc) -> str:
        there = self.collection(kind)
        for _ in range(GENERATED_NAMES):
            name: str = metadata["generateName"] + self.chance.token(5)
            if there.get(metadata.get("namespace", ""), name) is None:
                break
        return name

    def check_type(self, kind: Kind, doc: Doc, *, required: bool = False) -> None:
        if not isinstance(doc, dict):
            self.refuse("the body is not an object")
        if (required or schemas.traits(kind).custom) and not (doc.get("apiVersion") and doc.get("kind")):
            self.refuse(f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing")
        version, name = doc.get("apiVersion", kind.api_version), doc.get("kind", kind.kind)
        if (version, name) != (kind.api_version, kind.kind):
            self.refuse(f"the object provided is {version} {name}, expected {kind.api_version} {kind.kind}")

    def _check_namespace(self, kind: Kind, metadata: Doc) -> None:
        if not kind.namespaced:
            return
        namespace = self.collection(kinds.NAMESPACE).get("", metadata["namespace"])
        if namespace is None:
            raise self.failure(404, "NotFound", f'namespaces "{metadata["namespace"]}" not found')
        if namespace.doc["metadata"].get("deletionTimestamp"):
            message = (
                f'{kind.name} "{metadata["name"]}" is forbidden: unable to create new content in namespace '
                f"{namespace.name} because it is being terminated"
            )
            raise self.failure(403, "Forbidden", message, causes=(FieldCause("metadata.namespace", "is being terminated"),))

    def _validate(self, kind: Kind, doc: Doc, old: Doc | None) -> None:
        causes = schemas.check_metadata(kind, doc["metadata"])
        for check in self.validators.get(kind, ()):
            if causes:
                break
            causes += check(doc, old)
        if causes:
            self._invalid(kind, doc["metadata"]["name"], causes)

    @contextlib.contextmanager
    def acting(self, user: admission.User) -> Iterator[None]:
        """What is written in this block is written by `user`."""
        before, self.user = self.user, user
        try:
            yield
        finally:
            self.user = before

    def _admit(self, kind: Kind, doc: Doc, old: Doc | None, *, subresource: str = "") -> None:
        policies, bindings = self.collection(admission.POLICIES), self.collection(admission.BINDINGS)
        why = admission.refusal(policies, bindings, user=self.user, kind=kind, subresource=subresource, doc=doc, old=old)
        if why:
            name = doc["metadata"]["name"]
            raise self.failure(422, "Invalid", f'{kind.name} "{name}" is forbidden: {why}')

    def _judge(self, kind: Kind, doc: Doc | None, old: Doc | None) -> None:
        problems = self.webhooks.problems(kind, doc, old) if self.webhooks is not None else ()
        if problems:
            text = "; ".join(map(str, problems))
            causes = tuple(FieldCause(each.field, each.message) for each in problems)
            message = f'admission webhook for "{kind.name}" denied the request: {text}'
            raise self.failure(422, "Invalid", message, causes=causes)

    def _invalid(self, kind: Kind, name: str, causes: list[FieldCause]) -> NoReturn:
        text = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
        shown = text if len(causes) == 1 else f"[{text}]"
        kind_name = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        raise self.failure(422, "Invalid", f'{kind_name} "{name}" is invalid: {shown}', causes=tuple(causes))

    def refuse(self, message: str) -> NoReturn:
        raise self.failure(400, "BadRequest", message)

    # --- changing ----------------------------------------------------------------------------------------------------

    def update(
        self,
        old: Stored,
        doc: Doc,
        *,
        subresource: str | None = None,
        writer: str = "",
        owned: fields.Ownership | None = None,
        conditional: bool = True,
    ) -> Stored:
        """Replace `old` by `doc` (from now on the server's own). `owned` is given by server-side apply alone.

        `conditional`: a missing resourceVersion is refused where the kind's strategy does not allow it (PUT).
        """
        kind, strategy = old.kind, schemas.traits(old.kind)
        if subresource not in schemas.subresources(kind):
            raise self.failure(404, "NotFound", "the server could not find the requested resource")
        self.check_type(kind, doc)
        metadata: Doc = doc.setdefault("metadata", {})
        self._check_same(old, metadata, may_omit_version=strategy.unconditional or not conditional)
        doc = documents.split(old, doc, subresource=subresource)
        documents.keep_system_metadata(old, doc["metadata"])
        self._check_finalizers(old, doc["metadata"])
        if self.webhooks is not None and subresource is None:
            doc = self.webhooks.complete(kind, doc, old.doc)
        self._validate(kind, doc, old.doc)
        self._admit(kind, doc, old.doc, subresource=subresource or "")
        if subresource is None:
            self._judge(kind, doc, old.doc)
        if strategy.generation and documents.bumps_generation(old, doc):
            doc["metadata"]["generation"] = old.doc["metadata"].get("generation", 0) + 1
        doc["metadata"]["resourceVersion"] = str(old.version)
        full = {**doc, "apiVersion": kind.api_version, "kind": kind.kind}
        if owned is None and old.owned is not None:
            owned = self._owned_after_update(old, full, writer=(writer, "Update", subresource or ""))
        if deletion.is_emptied(old, doc["metadata"]):
            return self._remove(old)
        if full == old.doc and owned == old.owned:
            return old
        new = seal(kind, doc, version=self.version + 1, owned=owned)
        self._commit(Change(self.version + 1, old, new))
        return new

    def _check_same(self, old: Stored, metadata: Doc, *, may_omit_version: bool) -> None:
        if metadata.setdefault("name", old.name) != old.name:
            self.refuse(f"the name of the object ({metadata['name']}) does not match the name on the URL ({old.name})")
        if old.namespace and metadata.setdefault("namespace", old.namespace) != old.namespace:
            self.refuse("the namespace of the provided object does not match the namespace sent on the request")
        version = metadata.get("resourceVersion") or ""
        if not version and not may_omit_version:
            cause = FieldCause("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
            self._invalid(old.kind, old.name, [cause])
        if metadata.get("uid", old.uid) != old.uid:
            raise self.conflict(
                old, f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {old.uid}"
            )
        if version and version != str(old.version):
            raise self.conflict(
                old, "the object has been modified; please apply your changes to the latest version and try again"
            )

    def conflict(self, old: Stored, message: str) -> errors.ApiError:
        """409 about one object."""
        return self.failure(409, "Conflict", f'Operation cannot be fulfilled on {old.kind.name} "{old.name}": {message}')

    def _check_finalizers(self, old: Stored, metadata: Doc) -> None:
        if not metadata.get("deletionTimestamp"):
            return
        before = old.doc["metadata"].get("finalizers") or []
        added = [name for name in metadata.get("finalizers") or [] if name not in before]
        if added:
            text = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            self._invalid(old.kind, old.name, [FieldCause("metadata.finalizers", text)])

    def _owned_after_update(self, old: Stored, doc: Doc, *, writer: fields.Writer) -> fields.Ownership:
        keys_of = self.keys_of(old.kind)
        assert old.owned is not None
        return fields.after_update(old.owned, fields.leaves(old.doc, keys_of), fields.leaves(doc, keys_of), writer=writer)

    def keys_of(self, kind: Kind) -> fields.ListKeys:
        """Which lists of this kind have map keys."""
        return self.list_keys.get(kind, fields.metadata_keys if schemas.traits(kind).custom else fields.builtin_keys)

    # --- deleting ----------------------------------------------------------------------------------------------------

    def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete, or mark for deletion where finalizers, a grace period or the propagation policy ask for it."""
        old = self.read(kind, name, namespace=namespace)
        self._check_preconditions(old, preconditions)
        self._judge(kind, None, old.doc)
        doc: Doc = orjson.loads(old.raw)
        metadata = doc["metadata"]
        deletion.set_propagation(metadata, propagation)
        grace = deletion.grace_of(old, asked=grace_seconds)
        pending = bool(metadata.get("finalizers")) or (kind == kinds.NAMESPACE and bool(doc["spec"].get("finalizers")))
        if not grace and not pending:
            self._remove(old)
            return
        deletion.mark(old, metadata, grace=grace, now=self.clock.now())
        if kind == kinds.NAMESPACE:
            doc["status"]["phase"] = "Terminating"
        if doc != old.doc:
            self._commit(Change(self.version + 1, old, seal(kind, doc, version=self.version + 1, owned=old.owned)))

    def _check_preconditions(self, old: Stored, preconditions: Preconditions | None) -> None:
        if preconditions is None:
            return
        if preconditions.uid is not None and preconditions.uid != old.uid:
            raise self.conflict(
                old, f"Precondition failed: UID in precondition: {preconditions.uid}, UID in object meta: {old.uid}"
            )
        wanted = preconditions.resource_version
        if wanted is not None and wanted != str(old.version):
            raise self.conflict(
                old,
                f"Precondition failed: ResourceVersion in precondition: {wanted}, "
                f"ResourceVersion in object meta: {old.version}",
            )

    def _remove(self, old: Stored) -> Stored:
        self._commit(Change(self.version + 1, old, None))
        return old

    def finish_namespace(self, old: Stored) -> None:
        """Remove a terminating namespace that is empty, as the namespace controller does by `finalize`."""
        self._remove(old)

    # --- binding -----------------------------------------------------------------------------------------------------

    def bind(self, pod: str, *, namespace: str, node: str, uid: str | None) -> None:
        """POST pods/binding."""
        old = self.read(kinds.POD, pod, namespace=namespace)
        self._check_preconditions(old, Preconditions(uid=uid))
        doc: Doc = orjson.loads(old.raw)
        if doc["metadata"].get("deletionTimestamp"):
            raise self.conflict(old, f"pod {pod} is being deleted, cannot be assigned to a host")
        if doc["spec"].get("nodeName"):
            raise self.conflict(old, f'pod {pod} is already assigned to node "{doc["spec"]["nodeName"]}"')
        if doc["spec"].get("schedulingGates"):
            raise self.conflict(old, f"pod {pod} has non-empty .spec.schedulingGates")
        doc["spec"]["nodeName"] = node
        status = doc.setdefault("status", {})
        others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.clock.now())}
        status["conditions"] = [*others, scheduled]
        self._commit(Change(self.version + 1, old, seal(kinds.POD, doc, version=self.version + 1, owned=old.owned)))

    def _commit(self, change: Change) -> None:
        self.version = change.version
        kind = (change.new or change.old).kind  # type: ignore[union-attr]
        self.collection(kind).commit(change)
        for listener in self.listeners:
            listener(change)
