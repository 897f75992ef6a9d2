"""Whether what was found is enough to answer a question, and what to say when it is not."""
