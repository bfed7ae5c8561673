"""What every kind shares: how objects are read and written, metadata, conditions, selectors, taints."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from apis.kinds import Kind
from apis.schema import Int32, Object, Time, one_of, served


class Model(BaseModel):
    """Camel-case JSON read strictly; fields nobody declared are kept and written back."""

    model_config = ConfigDict(
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        strict=True,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )

    def to_json(self) -> dict[str, Any]:
        """The JSON it was read from: nothing that was not set, nothing dropped."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class OwnerReference(Model):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None
    managed_fields: list[dict[str, Any]] | None = None


class Resource(Model):
    """One object of a served kind."""

    served_as: ClassVar[Kind]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @classmethod
    def read(cls, document: bytes | str) -> Self:
        """Read JSON; raises pydantic's ValidationError naming field and value."""
        return cls.model_validate_json(document)

    @classmethod
    def of(cls, name: str, *, namespace: str = "", **fields: Any) -> Self:
        """A new object of this kind, fields in JSON names."""
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        return cls.model_validate(
            {"apiVersion": cls.served_as.api_version, "kind": cls.served_as.kind, "metadata": meta, **fields}
        )

    @property
    def key(self) -> str:
        """`namespace/name`, or the bare name of what is cluster-scoped."""
        return f"{self.metadata.namespace}/{self.metadata.name}" if self.metadata.namespace else self.metadata.name


class Condition(Model):
    """metav1.Condition."""

    type: str
    status: Annotated[str, one_of("True", "False", "Unknown")]
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: Annotated[int | None, served(format="int64")] = None


class Requirement(Model):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Model):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class Taint(Model):
    key: str
    effect: Annotated[str, one_of("NoSchedule", "PreferNoSchedule", "NoExecute")]
    value: str | None = None
    time_added: Time | None = None


class Toleration(Model):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Annotated[int | None, served(format="int64")] = None


class ReplicaRequirements(Model):
    """What one replica asks of a node (Karmada's node claim and resource request)."""

    node_claim: Object | None = None
    resource_request: dict[str, Any] | None = None
    namespace: str | None = None
    priority_class_name: str | None = None


class ClusterReplicas(Model):
    """A cluster and how many replicas it runs."""

    name: str
    replicas: Int32 | None = None
