"""The Job controller: Job becomes PodGroup becomes pods; pods become Job status. Writes PodGroup spec, never its status.

One look at one Job: `waking` finds whom a change concerns, `controller` takes a `snapshot`, `planner` decides (`asking`: what
is ordered; `effects`: what to make and remove; `memory`: what to keep; `statuses`: what to say), `making` carries it out
through the one writer, `applier`, and `telling` says so. What a Job is turned into: `children`, `groups`, `plugins`.

Invariants: an order is in the status before any pod is touched; no first pod without a grant; a result is recorded once.
"""
