"""A model as a folder that other programs run: one ONNX graph, and around it what each of them reads."""
