"""Updates as compiled code, for CPUs: the same arithmetic as the agent's own `update`, on the same tensors.

machine.py   what compiled code needs beyond Numba: addresses, calls, atomics; the cache of what was compiled
blas.py      the matrix product, from the library that PyTorch or NumPy brings along
team.py      threads that work on one update together, and the barrier between its parts
mlp.py       stacked layers: forward, backward, gradients, Adam
sac.py       SAC's losses, put together from these
memory.py    where everything lies
learner.py   what can be compiled, and the calls from Python
"""
