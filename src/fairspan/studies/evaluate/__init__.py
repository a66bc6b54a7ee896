"""Does search find what it should, wherever the evidence is?"""
