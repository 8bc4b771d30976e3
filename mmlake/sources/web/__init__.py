"""The web as a source: addresses fetched politely, answers undone and judged. What connectors of crawls and of URL
lists share."""
