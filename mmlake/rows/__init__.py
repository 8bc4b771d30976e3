"""Interleaved rows."""
