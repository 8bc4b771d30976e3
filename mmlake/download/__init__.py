"""Addresses of the web, fetched politely and once: URL lists, robots.txt, opt-outs, the journal."""
