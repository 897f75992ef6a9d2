"""Language models behind one protocol, with retries, a cache and a budget."""
