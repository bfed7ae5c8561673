"""Marks of policies on what they govern: Jobs, and the JobFlows, JobTemplates and CronJobs that Jobs are made from
(reference/karmada.md 0.1, 1.3).

Belongs here: writing claims as `policies.claims` decides them. Not here: other kinds (`objects`), and placing. Invariants: one
write when the policy of an object changes and none otherwise; what has ended keeps its marks.
"""
