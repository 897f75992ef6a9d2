"""Judges of sufficiency: do the passages found answer the question?"""
