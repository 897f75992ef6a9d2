"""How good a pipeline is, measured on questions with known answers.

Read topics and qrels (`load`), run pipelines over them (`running`) or read runs from elsewhere (`trec`), score
them through ir-measures (`measures`), put them side by side (`comparison`), and show that as tables, JSON and
drawings. Nothing heavy is imported before it is used.
"""
