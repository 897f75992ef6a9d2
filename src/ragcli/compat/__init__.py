"""TODO ragcli.compat"""
