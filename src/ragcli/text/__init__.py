"""Work on plain text that several packages need; it imports nothing else of ragcli."""
