"""Roles that hub and member both run: flows, cron, admission, ttl.

Belongs here: a controller whose behaviour is the same on either side of the border. Does not belong: anything that knows
whether it runs at the hub or in a member.
"""
