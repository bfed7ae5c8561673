"""What Jobs refer to goes where they go: one Work per object and cluster, for as long as a live run needs it (protocol.md 7).

Belongs here: which objects are needed where, the Works that bring them, and what members say of these. Contents of Secrets are
in such Works and nowhere else: never in logs, events or status.
"""
