"""The member: the agent that runs in every cluster, and the fencer beside it.

Belongs here: the local life of Works, Jobs, queues and gangs, and what is reported of them. Never imports `federation`.
Invariant: the agent dials out; nothing dials in.
"""
