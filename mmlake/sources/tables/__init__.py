"""Records as columns: Parquet, Arrow, Lance, each within a bound of memory."""
