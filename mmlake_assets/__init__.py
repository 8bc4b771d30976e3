"""Asset definitions, one file per stage: partition -> library call -> metadata. `definitions.py` is the code
location."""

import warnings

# By their words and not by their class: `mmlake --help` comes through here, and importing Dagster takes longer than all
# else that it does.
# Backfill policies and the mapping of one partition dimension are beta in dagster 1.13; the pin below 1.14 is the
# guard, not a warning on every command.
warnings.filterwarnings("ignore", message="(?s).* is currently in beta, and may have breaking changes")
# A job over a modality's row assets holds GPU ones, whose backfill chunks are smaller; Dagster takes the smaller for
# the job, which is what we want.
warnings.filterwarnings("ignore", message="(?s)Asset job .*")
