"""Parquet, Arrow IPC and Lance, read by one child process under limits of memory and time.

Enters: a binary file, or the directory of a Lance dataset. Leaves: record batches of bounded size, whose offsets are
sound. `readers.py` is what others use; `process.py` starts the child; `child.py` is the program that runs in it.
"""
