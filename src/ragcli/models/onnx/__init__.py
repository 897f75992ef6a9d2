"""TODO ragcli.models.onnx"""
