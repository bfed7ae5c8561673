"""Starting a program as its container would: as user 65532, on a root file system that nobody can write to.

The one capability that is left lets it read what user 65532 may not: on a machine of tests the interpreter and the kubeconfigs
lie in folders of the user who runs them, in an image everybody may read them. It writes nowhere but to memory.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Final

USER: Final = "65532"
SCRATCH: Final = "/dev/shm"
"""What the charts mount as /tmp."""
_KEPT: Final = "-all,+dac_read_search"
_SHELL: Final = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"'


@functools.cache
def prefix() -> tuple[str, ...]:
    """Words to put before a command; none where this machine does not let us, and then programs run as whoever runs the
    tests."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        return ()
    user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs"]
    user += [part for kind in ("inh-caps", "ambient-caps", "bounding-set") for part in (f"--{kind}", _KEPT)]
    scratch = ["env", f"TMPDIR={SCRATCH}", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1"]
    words = ("unshare", "--mount", "sh", "-c", _SHELL, "sh", *user, *scratch)
    tried = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if tried.returncode == 0 else ()
