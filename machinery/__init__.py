"""The plumbing: the Kubernetes port, informers, work queue, runner, leases, clock, HTTP, metrics, logs.

Belongs here: anything that would be the same in another controller. Does not belong: knowledge of Jobs, queues or members.
Invariants: only `clock.py` reads the system; a failed read is an error and never an empty list; retries live in one place.
"""
