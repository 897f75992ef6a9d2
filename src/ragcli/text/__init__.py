"""TODO ragcli.text"""
