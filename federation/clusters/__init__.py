"""Members as the hub sees them: registration, health, execution namespaces, fence numbers.

Invariant: a Lease's `leaseTransitions` (F) only ever grows, and only the hub raises it.
"""
