"""Addresses of the web, fetched politely and once: rate limits, robots.txt, opt-outs, the journal."""
