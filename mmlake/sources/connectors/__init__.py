"""Connectors, one file per format, and the table of them (`table.py`)."""
