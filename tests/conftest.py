"""What every test stands on."""

from __future__ import annotations

import asyncio

# The virtual-time plugin asks for the current event loop before every test, also before those that need none; asyncio would
# then make one that nobody closes, and a later test would fail for the leak. With "no loop" said once, it asks in vain.
asyncio.set_event_loop(None)
