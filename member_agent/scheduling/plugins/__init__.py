"""Scheduler plugins (reference/volcano.md 4.3): rules of one session about queues, gangs, pods, nodes and victims.

Pure; made anew for each session. Own plugins are installed as entry points of the group
`volcano_federation.scheduler_plugins` and named in the configuration like any other.
"""
