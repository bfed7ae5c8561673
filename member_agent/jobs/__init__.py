"""The Job controller: Job becomes PodGroup becomes pods; pods become Job status. Writes PodGroup spec, never its status."""
