"""What torch itself says and does, worked out for the tables of `torchstray.semantics.torch_api`."""
