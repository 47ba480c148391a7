"""Several intentions in one world, from rewards, examples or demonstrations."""
