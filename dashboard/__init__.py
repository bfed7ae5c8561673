"""The page. Arrives with a later issue; the place is kept."""
