"""Works are applied, refused, withdrawn and reported (protocol.md 1 and 2).

Invariants: no first pod of an exclusive Work before A1; a finalizer is removed only when the run's pods are known to be gone
(A4); a missing Work is an anomaly and never an order (A3).
"""
