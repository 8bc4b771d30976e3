"""Near duplicates of films.

Prints of one film: `fingerprints`, of hashes of its frames (`hashes`, `luma`). Of two: `matcher` asks `votes` for where
they lie along each other and `alignment` for what they share; `detail` says which of them is the truer copy.
"""
