"""The gang scheduler: a frozen snapshot goes in, bindings and reasons come out. Writes PodGroup status and bindings.

Invariant: a gang binds its minimum in one commit or nothing.
"""
