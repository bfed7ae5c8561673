"""Local queues: the default tree and each queue's status."""
