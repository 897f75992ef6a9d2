"""Query expansion, rewriting, HyDE, decomposition and conversation history."""
