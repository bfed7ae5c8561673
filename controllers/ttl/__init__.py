"""Finished Jobs leave after `ttlSecondsAfterFinished`, counted from the last transition."""
