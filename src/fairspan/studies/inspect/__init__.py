"""What does the vector of one document contain?"""
