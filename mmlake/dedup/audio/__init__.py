"""Near duplicates of recordings.

Prints of one recording and the matcher of many: `fingerprints`, of words of two kinds (`chroma`, `bands`). Candidates:
`keys`. Of two: `align`, by the loops of `kernels`. Of one and several that hold it between them: `across`.
"""
