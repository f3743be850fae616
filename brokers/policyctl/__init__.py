"""policyctl: the command line of domain managers, over the REST interface and nothing else."""
