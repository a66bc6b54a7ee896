"""Is a model fair to every position, language and length?"""
