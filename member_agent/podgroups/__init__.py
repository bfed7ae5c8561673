"""PodGroups for pods that come without one: bare pods, and pods of owners that are no Volcano Jobs (reference/volcano.md 2.1).

A family is all pods of one controlling owner, a bare pod with the pods it owns, or a lone pod; it shares one PodGroup,
`podgroup-<UID>`. Belongs here: making, refreshing and removing that group, and naming it on the pods. Does not: groups and
pods of Jobs (`jobs`), pods that name a group already, the group's status (`scheduling`). Invariants: a group is there before
a pod names it; a group lives no longer than its owner; a pod of a Job or of another scheduler is never written.
"""
