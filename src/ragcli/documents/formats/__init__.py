"""TODO ragcli.documents.formats"""
