"""WorkloadRebalancers: each asks once that workloads are placed anew; dispatch decides whether a better place exists.

Invariant: nothing is stopped here; a binding is told, and what becomes of the run is the planner's business.
"""
