"""Companions: what one file says of others, in annotations, manifests, labels, transcripts and tables."""
