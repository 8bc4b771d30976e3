"""Samples: the members of an archive or the files of a directory that belong together, and their rows."""
