"""A dexterous hand with a door, a hammer and a ball: main tasks with reaching and grasping beside them."""
