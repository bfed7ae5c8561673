"""What runs used is counted when they end, and how long equal Jobs took is remembered (design.md 4).

Belongs here: UsageReports and when they are written. Writes are outside the budget of a Job: many runs share one, at most
every ten seconds. Invariants: a run is counted once, whatever hub counts it; nothing here delays a Job.
"""
