"""Parsers of text formats: markdown, HTML, plain text, JSON lines, sidecars."""
