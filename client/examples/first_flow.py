# %% [markdown]
# A first flow over many clusters: ask where it would run, submit it, watch it, read what it printed.
# Run it cell by cell in a notebook, or as `python first_flow.py [NAMESPACE]`.

# %%
import sys

from volcano_federation import Job, NotFound
from volcano_federation.sync import Federation

FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: prepare}
spec:
  minAvailable: 1
  tasks:
    - name: main
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: "busybox:1.36", command: [sh, -c, "echo preparing"], resources: {requests: {cpu: 10m}}}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: train}
spec:
  minAvailable: 2
  tasks:
    - name: worker
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: "busybox:1.36", command: [sh, -c, "echo training"], resources: {requests: {cpu: 10m}}}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: first}
spec:
  flows:
    - {name: prepare}
    - {name: train, dependsOn: {targets: [prepare]}}
"""

fed = Federation.from_kubeconfig(namespace=sys.argv[1] if len(sys.argv) > 1 else None).__enter__()

# %% Where would it run? Nothing is made yet.
print(fed.plan(FLOW))

# %% Submit it, and see it go through its phases.
flow = fed.submit(FLOW)
for event in fed.watch(flow):
    print(event.object, event.object.phase)

# %% What it printed, in whatever clusters its steps ran. A hub without a channel says that it serves no logs.
try:
    for line in fed.logs(flow):
        print(line)
except NotFound as error:
    print(error)

# %% A single Job, in a few words, and why it runs where it runs.
job = fed.submit(Job("hello", "busybox:1.36", command="echo hello", cpu="10m"))
print(fed.explain(job))
print(fed.wait(job, timeout=120, check=True).phase)

# %% Leave nothing behind.
for target in (flow, job):
    fed.delete(target)
fed.__exit__(None, None, None)
