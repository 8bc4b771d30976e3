"""Duplicates across modalities: what a film carries of another one (`components`), met by joining tables (`join`)."""
