"""The model: an in-memory API server, nodes and kubelets as actors, virtual time, seeded faults, and the embedded federation.

Belongs here: whatever stands in for the real world. Hub and agents run here through their own composition roots, unchanged.
Invariant: the in-memory API passes the same contract suite as a real API server.
"""
