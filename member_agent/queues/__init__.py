"""Local queues: the two first ones, states and marks of all, and what their status says is in them.

Who gets room is the scheduler's affair, what may be written admission's. Invariants: nobody is open under a closed parent once
things have settled; opening a queue opens exactly what closing it shut; root is open; nothing is written that is there already.
"""
