"""Search structures over chunks: exact, lexical, TF-IDF, dense, token vectors.

This floor knows texts, arrays and files. It knows nothing of the store: chunks are plain integers here, and which of
them are alive is told from above. `pattern_matching` must stay free of numpy, because `ragcli grep` answers before
numpy would have been imported.
"""
