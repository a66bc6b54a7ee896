"""What does length do to a model's vectors?"""
