"""Reaching storage that is not on this machine: retries, limits, a cache."""
