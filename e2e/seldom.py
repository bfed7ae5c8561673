"""Rights that a run of the whole suite does not use, each with what it is for. Everything else that a chart allows is used."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

_OTHERS: Final = "kinds of others, where policies send such objects"
_BROUGHT: Final = "what Jobs refer to, and plain objects that policies send"
_GIVEN: Final = "given to members: nobody grants what they have not"
_FIRST: Final = "whoever applies an object makes it where it is absent; here another run made it"
_LEAVES: Final = "members that are unjoined, and what was theirs"
_CLAIMS: Final = "policies mark what they govern, and take the marks back"

SELDOM: Final[dict[tuple[str, str], str]] = {
    **{("hub", f"* {each}"): _OTHERS for each in ("*.apps", "*.argoproj.io", "*.flink.apache.org", "*.kubeflow.org")},
    **{("hub", f"* {each}"): _OTHERS for each in ("*.ray.io", "*.sparkoperator.k8s.io", "cronjobs.batch", "*/status.batch")},
    **{("hub", f"* {each}"): _BROUGHT for each in ("persistentvolumeclaims", "pods", "resourcequotas", "serviceaccounts")},
    **{
        ("hub", f"* {each}"): _BROUGHT
        for each in ("services", "networkpolicies.*", "poddisruptionbudgets.*", "priorityclasses.*")
    },
    ("hub", "patch secrets"): _BROUGHT,
    ("hub", "* clusterresourcebindings*"): "objects of other kinds without a namespace",
    ("hub", "* clusteroffers.volcano-federation.io"): _GIVEN,
    ("hub", "* clustercapacities*"): _GIVEN,
    ("hub", "* works*"): _GIVEN,
    ("hub", "create *.rbac.authorization.k8s.io"): _FIRST,
    ("hub", "* *webhookconfigurations.admissionregistration.k8s.io"): f"{_FIRST}; they go when webhooks are switched off",
    ("hub", "delete namespaces"): _LEAVES,
    ("hub", "* clusters.cluster.karmada.io"): f"{_LEAVES}; candidates that ClusterProfiles make",
    ("hub", "* clusterprofiles.multicluster.x-k8s.io"): "candidates, where the setting cluster_profiles is on",
    ("hub", "* workloadrebalancers*"): "Jobs that people have placed anew",
    ("hub", "delete jobs.batch.volcano.sh"): "Jobs whose time to live is over, and those that CronJobs made",
    ("hub", "* jobflows.flow.volcano.sh"): f"flows whose time to live is over; {_CLAIMS}",
    ("hub", "patch jobtemplates.flow.volcano.sh"): _CLAIMS,
    ("hub", "patch cronjobs.batch.volcano.sh"): _CLAIMS,
    ("hub", "* queues.scheduling.volcano.sh"): "the queue default, where it is missing or closed by somebody",
    ("hub", "approve signers.certificates.k8s.io"): "asked by the API server itself when a request is approved",
    ("hub", "delete placementreviews.volcano-federation.io"): "reviews go ten minutes after their answer",
    ("hub", "delete usagereports.volcano-federation.io"): "reports go after a season",
    ("hub", "* resourcebindings*"): "bindings of Jobs that the garbage collector left",
    ("hub", "patch federatedresourcequotas/status.policy.karmada.io"): "quotas in use",
    **{("agent", f"* {each}"): _OTHERS for each in ("*.apps", "*.argoproj.io", "*.flink.apache.org", "*.kubeflow.org")},
    **{("agent", f"* {each}"): _OTHERS for each in ("*.ray.io", "*.sparkoperator.k8s.io", "cronjobs.batch", "jobs.batch")},
    **{
        ("agent", f"* {each}"): _BROUGHT for each in ("serviceaccounts", "resourcequotas", "persistentvolumeclaims", "services")
    },
    **{("agent", f"* {each}"): _BROUGHT for each in ("networkpolicies.*", "poddisruptionbudgets.*", "priorityclasses.*")},
    ("agent", "delete namespaces"): _BROUGHT,
    ("agent", "create pods/eviction"): "evictions that a PodDisruptionBudget may refuse",
    ("agent", "get nodes"): "a node that a stopped run may still be on",
    ("agent", "get persistentvolumes"): "volumes that are bound",
    ("agent", "get replicationcontrollers"): "owners of pods that come without a group",
    ("agent", "update secrets"): "the certificates of its webhook and its credential, as they are renewed",
    ("agent", "* *webhookconfigurations.admissionregistration.k8s.io"): f"{_FIRST}; they go when webhooks are switched off",
    ("agent", "update jobs.batch.volcano.sh"): "Jobs that orders of the hub change",
    ("agent", "* commands.bus.volcano.sh"): "orders to a Volcano that runs the Jobs of the member",
    ("agent", "* jobflows*"): "flows of a member's own people",
    ("agent", "get jobtemplates.flow.volcano.sh"): "flows of a member's own people",
    ("agent", "* queues.scheduling.volcano.sh"): "queues that the hub brought and takes back",
    ("agent", "get podgroups.scheduling.volcano.sh"): "a group that somebody else made first",
    ("agent", "patch podgroups/status.scheduling.volcano.sh"): "groups where their status is a resource of its own",
    ("agent", "* csistoragecapacities.storage.k8s.io"): "room for volumes of drivers that publish it",
    ("member", "* clusteroffers.volcano-federation.io"): "members with a price sheet",
    ("member", "get clustercapacities.volcano-federation.io"): "a capacity that is read anew after a conflict",
    ("member", "update works*"): "agents that write a Work whole",
}
"""By program (hub, agent, fencer, member) and pattern of rights."""


def reason(program: str, right: str) -> str | None:
    """What an unused right is for; None when nobody says so."""
    return next((text for (who, pattern), text in SELDOM.items() if who == program and fnmatchcase(right, pattern)), None)
