"""The member's end of the channel (protocol.md 8): dials the hub, and answers what it asks about Jobs that it sent here.

What the hub says is not believed: every answer begins with a Work that this agent holds for the Job that is asked about, and
ends at pods which that Job owns. Only two things can be asked: GET pods/log, and whether pods answer. Nothing here writes.
"""
