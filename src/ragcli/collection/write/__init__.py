"""Writing a collection: prepared documents, commit steps, embedding batches, the one writer."""
