"""How well approximate joins find: `estimates` from a sample, of joins by keys `near`, against an exhaustive pass
(`nearest`), and the `key_curve` of recall against cost."""
