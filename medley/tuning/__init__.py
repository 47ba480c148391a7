"""Hyperparameters by Optuna, through Hydra's sweeper."""
