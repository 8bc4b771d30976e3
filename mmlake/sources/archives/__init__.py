"""What files are packed in: tars, zips, gzip and its like, and the tables inside."""
