"""The credential by which this member is known at the hub: asked for with a token once, kept in a Secret, and renewed by
itself.

Belongs here: the key, the request for a certificate, the Secret that holds both. Not here: who is let in (the hub decides),
what the credential may do. Invariant: the key never leaves the member, and is stored before anything is asked for by it, so
that replicas and restarts ask once.
"""
