"""Exit codes of fedctl, in one place; docs/operations/fedctl.md explains them, and a test compares."""

from __future__ import annotations

from typing import Final

OK: Final = 0
FAILED: Final = 1
"""What was waited for ended badly."""
USAGE: Final = 2
"""The command line or a manifest cannot be read. Also: a flow that was watched has failed."""
NO_SERVER: Final = 3
"""No hub: it does not answer, or the kubeconfig does not lead to one."""
NOT_FOUND: Final = 4
NOT_SERVED: Final = 5
"""The hub does not serve this kind or field."""
REFUSED: Final = 6
"""The hub said no: admission, a rule, or the state of the object."""
NOT_ALLOWED: Final = 7
"""No permission, or a credential that is good no longer."""
NO_ANSWER: Final = 8
"""A question was asked and not answered in time."""
NOT_CONFIRMED: Final = 9
"""You said no, or nobody could be asked."""
TIMED_OUT: Final = 10
"""It is not done yet, and goes on."""
