"""Units: spans that tile an item, cut where it costs least (`places`, `splitting`), never within a word (`silences`).

`units` makes their table, `unit_tracks` what each has of its item's tracks, `check` says whether spans tile an item.
"""
