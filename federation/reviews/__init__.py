"""PlacementReview: the planner's answer as an object. Arrives with the placement issue; the place is kept."""
