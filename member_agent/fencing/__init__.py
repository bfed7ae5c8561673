"""The fencer: renews the member Lease. Deadlines and pod deletion (A2) come with `Fence`."""
