"""One module a command: parse the options, call the library once, render the result."""
