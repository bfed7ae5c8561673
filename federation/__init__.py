"""The hub: many clusters as one queue.

Belongs here: the hub program, its roles and its settings. Never imports `member_agent`: the two meet in API objects.
Invariant: losing this process at any instant loses nothing; everything durable is an API object.
"""
