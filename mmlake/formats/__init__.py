"""Formats: bytes in, records or members out. Nothing here knows of lakes, landing zones or stores."""
