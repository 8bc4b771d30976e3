"""What files say of others: annotations, manifests, labels, transcripts and tables in the forms that corpora have."""
