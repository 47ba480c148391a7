"""A Franka Panda arm that is to bring its tool to places: simulated here, in real time in `medley.robots`."""
