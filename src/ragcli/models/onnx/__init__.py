"""Models on ONNX Runtime: read BERT weights, build the graph, quantise, run."""
