"""The command: talks to the API like any client, and never runs a planner itself."""
