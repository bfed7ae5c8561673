"""Objects of other kinds than Volcano's Job go where policies say (reference/karmada.md 1 and 5, decision 14).

Belongs here: which objects travel, where each goes, their bindings and Works, and what comes back. Not here: Volcano Jobs,
which have runs, epochs and fences; what Jobs and objects refer to (`dependencies`). Invariants: the binding is written before
its Works; what runs pods in one cluster goes to another only after its Work there is gone.
"""
