"""Several methods under one protocol: what `medley compare` does."""
