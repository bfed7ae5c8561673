"""The rules: a frozen view goes in, a verdict, score, share or patch comes out.

Belongs here: matching, filters, scores, the run lifecycle, status folding, views that roles share. Does not belong: clients,
clocks, awaiting, logging. Invariant: same view, same answer, byte for byte; no rule raises to say no.
"""
