"""Asset definitions, one file per stage: partition -> library call -> metadata. `definitions.py` is the code location."""

import warnings

import dagster as dg

# Backfill policies and the mapping of one partition dimension are beta in dagster 1.13; the pin below 1.14 is the guard, not a warning on every command.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
# A job over a modality's row assets holds GPU ones, whose backfill chunks are smaller; Dagster takes the smaller for the job, which is what we want.
warnings.filterwarnings("ignore", message="(?s)Asset job .*")
