"""Maintenance: reindex, verify, repair, archives, imports, migrations."""
