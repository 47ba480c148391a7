"""Pieces shared by compiled code: the Meta-World simulator and the updates on CPUs."""
