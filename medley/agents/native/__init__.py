"""Updates as compiled code, for CPUs: the same arithmetic as the agent's own `update`, on the same tensors.

machine.py   what compiled code needs beyond Numba: addresses, calls, atomics; the cache of what was compiled
blas.py      the matrix product, from the library that PyTorch or NumPy brings along
team.py      threads that work on one update together, and the barrier between its parts
vectors.py   vectors of 16 numbers, and whether this machine has them
tiles.py     the matrix product of our own for machines that have
transpose.py matrices the other way round
products.py  forward, back and gradient of one matrix, by tiles or BLAS
mlp.py       stacked layers: forward, backward, gradients
descent.py   Adam, and targets that follow
job.py       the record that an update reads
sac.py       SAC's losses, put together from these
memory.py    where everything lies
learner.py   what can be compiled, and the calls from Python
"""
