"""Jobs become bindings and Works: when, where, and the order to stop.

Invariants: the binding alone decides, by compare-and-set; epoch n+1 is not granted before n is known to have ended
(protocol.md 2); what is promised is charged to one ledger (protocol.md 3).
"""
