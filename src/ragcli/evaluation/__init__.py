"""Evaluation of retrieval on topics with known relevance: runs, metrics, significance, reports."""
