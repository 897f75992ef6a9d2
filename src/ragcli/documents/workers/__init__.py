"""TODO ragcli.documents.workers"""
