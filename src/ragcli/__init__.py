"""ragcli finds the right passage in your own papers and notes."""
