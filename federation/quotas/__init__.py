"""What FederatedResourceQuotas show: how much of them is used, over all clusters and by cluster. Dispatch holds them."""
