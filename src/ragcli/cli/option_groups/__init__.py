"""Options shared by several commands, with the values that they make."""
