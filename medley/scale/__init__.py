"""From one machine to many: sweeps on this machine, on Slurm and on Ray."""
