"""Real control planes for people and tests: etcd, kube-apiserver and kube-controller-manager as processes on loopback, with
member nodes that are real kubelets and containerds in sandboxes of their own, or kwok's simulated ones.

`async with fleet.Federation(...)` boots one hub and any number of members at once; `python -m e2e.controlplane up | down`
does it for people. Plans, command lines and configuration files are pure (`plan`, `commands`, `render`); the rest starts,
records and stops processes. Everything lives under one work directory and is torn down from the records kept there, so a
crashed run is cleaned the same way as a finished one. Nothing here touches the host's addresses, routes or firewall.
"""
