"""What became of one document in its one vector?"""
