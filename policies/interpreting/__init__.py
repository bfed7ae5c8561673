"""What objects of any kind are to the hub: their components, health, status and dependencies (reference/karmada.md 5.3, 5.4).

Belongs here: the rules that come along, those of ResourceInterpreterCustomizations, and asking either. Does not belong:
Volcano's own Jobs, which are understood field by field elsewhere. Invariants: a rule that fails says which and why, and counts
as not known, never as healthy or as asking for nothing; the same object gives the same answer, whatever order maps are walked
in.
"""

from policies.interpreting.customizations import CustomizationView, project_customization
from policies.interpreting.interpreter import Component, Health, Interpreter, Unclear
from policies.interpreting.rules import BUNDLED, Rules

__all__ = [
    "BUNDLED",
    "Component",
    "CustomizationView",
    "Health",
    "Interpreter",
    "Rules",
    "Unclear",
    "project_customization",
]
