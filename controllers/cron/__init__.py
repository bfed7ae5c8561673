"""CronJobs: a schedule becomes Jobs, or JobFlows (reference/volcano.md 1.8), as the CronJob controller of Kubernetes does it.

Invariants: one scheduled minute never makes two Jobs, since its Job or flow has the minute in its name and the time is recorded
before that may leave; of several missed runs only the latest is started; the status follows from the Jobs there are, so that a
controller that dies between the creation of a Job and the writing of the status finds the Job again.
"""
