"""The channel between hub and members (protocol.md 8), as far as both ends share it: what is said, settings, TLS, clean text.

An agent dials every replica of the hub and holds one WebSocket there, on which the hub asks. A small answer comes back on it;
a long one, such as a log, comes as the body of a request of its own, so that every stream has TCP's flow control to itself and
none waits for another. Nothing durable goes over the channel, and nothing depends on it but logs and probes.

`federation/channel` is the hub's end, `member_agent/channel` the member's; neither believes the other without looking.
"""
