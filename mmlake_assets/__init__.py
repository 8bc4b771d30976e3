"""Asset definitions, one file per stage: partition -> library call -> metadata. `definitions.py` is the code location."""

import warnings

import dagster as dg

# Backfill policies and the mapping of one partition dimension are beta in dagster 1.13; the pin below 1.14 is the guard, not a warning on every command.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
