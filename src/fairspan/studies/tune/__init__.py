"""Which treatment should be used, if any?"""
