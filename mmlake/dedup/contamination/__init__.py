"""What of a corpus is in an eval set: which sets (`eval_sets`), and where they are met (`hits`)."""
