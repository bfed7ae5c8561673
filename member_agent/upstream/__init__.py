"""Orders to a Volcano that runs the Jobs of this member: what our annotations ask for, by upstream's own means.

Belongs here: Commands for `suspend`, `max-run-time` and orders of the hub, and saying which annotations are not acted on.
Does not: making and removing hub-run Jobs, refusals (`works`). Invariants: an order is written on the Job before its Command
is made, so that a successor knows of it; a Job that a person aborted is never resumed.
"""
