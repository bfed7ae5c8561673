"""The nouns: what users and clusters write, as typed values.

Belongs here: pydantic models of every kind of design.md section 1, key names, quantities, resource vectors, the records that
hub and members exchange. Does not belong: any I/O, clock, chance, or a rule that chooses. Imports nothing of ours.
Invariant: reading an object and writing it back loses no field, known or unknown.
"""
