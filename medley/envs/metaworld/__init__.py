"""Meta-World: fifty manipulation tasks of one robot arm, on the `metaworld` package.

Nothing here imports the package or MuJoCo until an env is built or a task name is looked up.
"""
