"""Command lines of the programs. Pure."""

from __future__ import annotations

from pathlib import Path

from e2e.controlplane.build import Programs
from e2e.controlplane.plan import HIDDEN, ClusterPlan, NodePlan, NodeSource

CONTROLLERS_OFF = ("nodeipam", "node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller")
"""Controllers that need a cloud or a pod network plan."""
NODE_GRACE = "20s"
"""After how long without a sign of life a node is NotReady: half of upstream's, so that tests of lost nodes stay short."""


def etcd(programs: Programs, *, cluster: ClusterPlan) -> list[str]:
    """No fsync: the data live as long as the run."""
    client, peer = f"http://127.0.0.1:{cluster.ports.etcd_client}", f"http://127.0.0.1:{cluster.ports.etcd_peer}"
    return [
        str(programs.etcd),
        f"--data-dir={cluster.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(programs: Programs, *, cluster: ClusterPlan, audit: bool) -> list[str]:
    """RBAC, client certificates, serving on loopback.

    Address type InternalIP: the default tries the host name first and fails in DNS. The advertised address is the switch's,
    loopback is refused as an endpoint; without real nodes nobody is there, so the endpoint is left out.
    """
    certs = cluster.certs
    command = [
        str(programs.apiserver),
        f"--etcd-servers=http://127.0.0.1:{cluster.ports.etcd_client}",
        "--bind-address=127.0.0.1",
        f"--secure-port={cluster.ports.apiserver}",
        f"--advertise-address={cluster.switch_address}",
        f"--cert-dir={certs}",
        f"--tls-cert-file={certs / 'apiserver.crt'}",
        f"--tls-private-key-file={certs / 'apiserver.key'}",
        f"--client-ca-file={certs / 'ca.crt'}",
        f"--kubelet-client-certificate={certs / 'kubelet-client.crt'}",
        f"--kubelet-client-key={certs / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={certs / 'service-accounts.key'}",
        f"--service-account-signing-key-file={certs / 'service-accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--requestheader-client-ca-file={certs / 'front-proxy' / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={certs / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={certs / 'front-proxy-client.key'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth=true",
        f"--service-cluster-ip-range={cluster.service_subnet}",
        "--allow-privileged=true",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--shutdown-delay-duration=0s",
        "--profiling=false",
    ]
    if cluster.source is NodeSource.REAL:
        command.append(f"--egress-selector-config-file={cluster.folder / 'egress.yaml'}")
    else:
        command.append("--endpoint-reconciler-type=none")
    if audit:
        command += [
            f"--audit-policy-file={cluster.folder / 'audit-policy.yaml'}",
            f"--audit-log-path={cluster.folder / 'audit.log'}",
            "--audit-log-mode=batch",
            "--audit-log-batch-max-wait=1s",
        ]
    return command


def controller_manager(programs: Programs, *, cluster: ClusterPlan) -> list[str]:
    """Garbage collection, namespaces, service accounts, node lifecycle, CSR signing; no serving port."""
    certs = cluster.certs
    return [
        str(programs.controller_manager),
        f"--kubeconfig={cluster.kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--service-account-private-key-file={certs / 'service-accounts.key'}",
        f"--root-ca-file={certs / 'ca.crt'}",
        f"--cluster-signing-cert-file={certs / 'ca.crt'}",
        f"--cluster-signing-key-file={certs / 'ca.key'}",
        "--controllers=" + ",".join(["*", *(f"-{name}" for name in CONTROLLERS_OFF)]),
        f"--node-monitor-grace-period={NODE_GRACE}",
        "--node-monitor-period=2s",
        f"--flex-volume-plugin-dir={cluster.folder / 'volumeplugins'}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def kwok(programs: Programs, *, cluster: ClusterPlan) -> list[str]:
    """Keeps every Node annotated as fake alive, and its pods by the stages of kwok.stages."""
    return [
        str(programs.kwok),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--config={cluster.folder / 'kwok.yaml'}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--cidr={cluster.prefix}.0.0/17",
        "--node-ip=127.0.0.1",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{cluster.ports.kwok}",
    ]


def switch() -> list[str]:
    """A network namespace that lasts as long as its holder."""
    return ["unshare", "--net", "--", "sleep", "infinity"]


def sandbox(node: NodePlan) -> list[str]:
    """A node's own namespaces (network, mounts, processes, host name, IPC), held by its process 1.

    Killing process 1 ends every process of the node, shims and containers included, and with the last one mounts and network
    vanish. Shared folders that kubelet, containerd and CNI plugins hard-code are covered by empty ones. SIGCHLD ignored
    survives exec, so the kernel reaps what is orphaned to process 1.
    """
    cover = [f"mount -t tmpfs tmpfs {folder}" for folder in HIDDEN]
    script = "\n".join(
        [
            "mount --make-rshared /",
            *cover,
            f"hostname {node.name}",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            "trap '' CHLD",
            f"touch {node.folder / 'sandbox-ready'}",
            "exec sleep infinity",
        ]
    )
    namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc"]
    return ["unshare", *namespaces, "--fork", "--kill-child=KILL", "--mount-proc", "--", "sh", "-ec", script]


def inside(sandbox_pid: int) -> list[str]:
    """Prefix that runs a command in a node's namespaces; nsenter waits for it."""
    return ["nsenter", f"--target={sandbox_pid}", "--net", "--mount", "--pid", "--uts", "--ipc", "--"]


def containerd(node: NodePlan) -> list[str]:
    return ["containerd", "--config", str(node.folder / "containerd" / "config.toml")]


def kubelet(programs: Programs, *, node: NodePlan) -> list[str]:
    folder = node.folder
    return [
        str(programs.kubelet),
        f"--config={folder / 'kubelet.yaml'}",
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--root-dir={folder / 'root'}",
        f"--cert-dir={folder / 'certs'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.address}",
        "--v=1",
    ]


def ip_batch(cluster: ClusterPlan, *, switch_pid: int, sandbox_pids: dict[int, int]) -> dict[int, list[str]]:
    """`ip -batch` lines by the process whose network namespace they run in; 0 is the namespace of the caller.

    The caller's namespace only creates each cable, with both ends already inside the others.
    """
    ends = sorted(sandbox_pids.items())
    cables = [f"link add port{number} netns {switch_pid} type veth peer name eth0 netns {pid}" for number, pid in ends]
    bridge = [
        "link set lo up",
        "link add switch type bridge",
        f"addr add {cluster.switch_address}/24 dev switch",
        "link set switch up",
    ]
    by_number = {node.number: node for node in cluster.nodes}
    for number, _ in ends:
        bridge += [f"link set port{number} master switch up", _route(by_number[number])]
    lines = {0: cables, switch_pid: bridge}
    for number, pid in ends:
        node = by_number[number]
        others = [_route(other) for other in cluster.nodes if other.number != number]
        lines[pid] = ["link set lo up", f"addr add {node.address}/24 dev eth0", "link set eth0 up", *others]
    return lines


def _route(node: NodePlan) -> str:
    return f"route add {node.pod_subnet} via {node.address}"


def relay(python: str, *, config: Path) -> list[str]:
    return [python, "-m", "e2e.controlplane.relay", str(config)]
