"""TODO ragcli.documents.pdf"""
