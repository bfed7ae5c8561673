"""JobFlows: a DAG of JobTemplates becomes Jobs in dependency order, and their ends become the flow's status.

Invariants: a step never starts before its targets are Completed; a step whose end is recorded in the flow never runs again;
a template that is missing is waited for. The graph is networkx; the lifecycle is a table.
"""
