"""Language models behind one protocol: texts in, a text out, within a budget, and never needed to find anything."""
