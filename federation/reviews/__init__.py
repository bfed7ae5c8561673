"""PlacementReview: the planner's answer as an object (design.md 4).

What is asked and under whose rights, the cheapest change for a Job that waits, a flow step by step, and what is told. Not here:
planning, which `dispatch` does; it is asked through `policies.trials`. An answer commits nothing, and never says more than its
creator may see (invariant 9).
"""
