"""Records as lines and lists: JSON, separated values, and the texts in them."""
