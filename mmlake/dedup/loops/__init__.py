"""Loops that numba compiles, and where their machine code is kept: numpy does the same where they are not."""
