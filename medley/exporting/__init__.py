"""Trained policies for places without medley and PyTorch."""
