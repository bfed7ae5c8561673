"""ClusterCapacity and Cluster status: what this member has free, what waits, and how far its Work watch has come."""
