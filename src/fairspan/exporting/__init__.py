"""A model as a folder that other programs run: an ONNX graph, and the files that they read."""
