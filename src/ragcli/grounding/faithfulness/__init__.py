"""TODO ragcli.grounding.faithfulness"""
