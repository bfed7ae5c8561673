"""Status comes home: Work status folds into binding status and into the Job's own status (protocol.md 1 and 7).

Invariant: a status from another epoch or another Job UID changes nothing.
"""
