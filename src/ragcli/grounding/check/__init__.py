"""TODO ragcli.grounding.check"""
