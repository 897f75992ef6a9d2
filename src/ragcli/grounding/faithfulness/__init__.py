"""Judges of faithfulness: do the passages say what a sentence claims?"""
