"""CronJobs: a schedule becomes Jobs. Arrives with the member-jobs issue; the place is kept so that nothing moves."""
