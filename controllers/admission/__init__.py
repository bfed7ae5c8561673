"""What may enter: the rules of Job, JobFlow and Queue admission as pure functions, used by controllers and webhooks alike.

Invariant: a message names the object, the field and the reason. No rule reads anything but its arguments.
"""
