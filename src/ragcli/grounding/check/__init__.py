"""Check a draft: its sentences, their citations, and the evidence in the documents."""
