"""TODO ragcli.grounding.sufficiency"""
