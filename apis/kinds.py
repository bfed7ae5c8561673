"""Which kinds exist and where the API server serves them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """One served kind: its group, version, plural and scope; `group` is empty for the core API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core API."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """`plural.group`, as `kubectl` accepts it and CRDs are named; the bare plural for the core API."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        parts = ["/apis/" + self.group if self.group else "/api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


# Kubernetes
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("", "v1", "Event", "events")
CONFIGMAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE = Kind("", "v1", "Service", "services")
VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
REPLICATION_CONTROLLER = Kind("", "v1", "ReplicationController", "replicationcontrollers")
BATCH_JOB = Kind("batch", "v1", "Job", "jobs")
BATCH_CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
ADMISSION_POLICY = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
ADMISSION_POLICY_BINDING = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)
SIGNING_REQUEST = Kind("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", namespaced=False)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
FLOW_SCHEMA = Kind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", namespaced=False)
PRIORITY_LEVEL = Kind(
    "flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", namespaced=False
)

# Volcano
JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
CRON_JOB = Kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs")
JOB_FLOW = Kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows")
JOB_TEMPLATE = Kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates")
QUEUE = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
COMMAND = Kind("bus.volcano.sh", "v1alpha1", "Command", "commands")

# Workloads of others (reference/karmada.md 5.4)
SPARK_APPLICATION = Kind("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications")
FLINK_DEPLOYMENT = Kind("flink.apache.org", "v1beta1", "FlinkDeployment", "flinkdeployments")
PYTORCH_JOB = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
TF_JOB = Kind("kubeflow.org", "v1", "TFJob", "tfjobs")
MPI_JOB = Kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
RAY_CLUSTER = Kind("ray.io", "v1", "RayCluster", "rayclusters")
RAY_JOB = Kind("ray.io", "v1", "RayJob", "rayjobs")
WORKFLOW = Kind("argoproj.io", "v1alpha1", "Workflow", "workflows")

# Karmada
PROPAGATION_POLICY = Kind("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies")
CLUSTER_PROPAGATION_POLICY = Kind(
    "policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", namespaced=False
)
OVERRIDE_POLICY = Kind("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies")
CLUSTER_OVERRIDE_POLICY = Kind(
    "policy.karmada.io", "v1alpha1", "ClusterOverridePolicy", "clusteroverridepolicies", namespaced=False
)
CLUSTER_TAINT_POLICY = Kind("policy.karmada.io", "v1alpha1", "ClusterTaintPolicy", "clustertaintpolicies", namespaced=False)
WORKLOAD_REBALANCER = Kind("apps.karmada.io", "v1alpha1", "WorkloadRebalancer", "workloadrebalancers", namespaced=False)
FEDERATED_RESOURCE_QUOTA = Kind("policy.karmada.io", "v1alpha1", "FederatedResourceQuota", "federatedresourcequotas")
INTERPRETER = Kind(
    "config.karmada.io",
    "v1alpha1",
    "ResourceInterpreterCustomization",
    "resourceinterpretercustomizations",
    namespaced=False,
)
CLUSTER = Kind("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", namespaced=False)
WORK = Kind("work.karmada.io", "v1alpha1", "Work", "works")
RESOURCE_BINDING = Kind("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings")
CLUSTER_RESOURCE_BINDING = Kind(
    "work.karmada.io", "v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", namespaced=False
)

# Ours
CLUSTER_CAPACITY = Kind("volcano-federation.io", "v1alpha1", "ClusterCapacity", "clustercapacities")
DATA_SOURCE = Kind("datadependency.volcano.sh", "v1alpha1", "DataSource", "datasources", namespaced=False)
CLUSTER_OFFER = Kind("volcano-federation.io", "v1alpha1", "ClusterOffer", "clusteroffers", namespaced=False)
PLACEMENT_PROFILE = Kind("volcano-federation.io", "v1alpha1", "PlacementProfile", "placementprofiles", namespaced=False)
PLACEMENT_REVIEW = Kind("volcano-federation.io", "v1alpha1", "PlacementReview", "placementreviews")
USAGE_REPORT = Kind("volcano-federation.io", "v1alpha1", "UsageReport", "usagereports")
